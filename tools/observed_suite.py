"""Runs a file of CPython's own tests as `python -m test` would, and writes down what the agent in this process says.

    python tools/observed_suite.py REPORT POLICY SNAPSHOTS WORDS…

Used by tools/cpython_suites.py. It ends with 97 where the agent is not there, or does not conduct with that policy.
SNAPSHOTS is the time between two snapshots in milliseconds, 0 for none but the policy's own.
"""

import _thread
import atexit
import json
import os
import sys

report, policy, snapshots, *words = sys.argv[1:]
# Nothing of this folder may be found by the tests, and they look at these arguments.
sys.path.pop(0)
sys.argv[:] = ["-m test", *words]

neurogc = sys.modules.get("neurogc")


def write_down():
    """What has happened in this process. The agent's own exit hook is older than this one, so it comes later."""
    with open(report, "w") as file:
        json.dump(neurogc.status(), file)


class Snapshots:
    """A thread that takes a snapshot every so many seconds, and does nothing else.

    What was found is left to the policy, which frees it in gaps. What it has not freed by the next turn is freed here.
    """

    def __init__(self, seconds):
        self.agent = neurogc._native.agent
        self.seconds = seconds
        self.at_work = _thread.allocate_lock()
        self.end = _thread.allocate_lock()
        self.start()
        # A fork warns where there are other threads, and the agent's own are stopped for it, too.
        os.register_at_fork(before=self.stop, after_in_parent=self.start)
        atexit.register(self.stop)

    def start(self):
        self.end.acquire()
        self.at_work.acquire()
        _thread.start_new_thread(self.run, ())

    def stop(self):
        """Ends the thread, unless it is the one that forks, from a finalizer."""
        if self.end.locked():
            self.end.release()
            self.at_work.acquire()
            self.at_work.release()

    def run(self):
        while not self.end.acquire(timeout=self.seconds):
            while self.agent.snapshot_look()[0] == "ready":
                self.agent.snapshot_reap(5, True)
            try:
                self.agent.snapshot_launch()
            except RuntimeError:
                # Another one is still out, or a collection is running.
                pass
        self.end.release()
        self.at_work.release()


if policy:
    status = neurogc.status() if neurogc else None
    if not status or status["policy"] != policy or status["degraded"] or not status["conduct"]["acting"]:
        print(f"the agent does not conduct: {status}", file=sys.stderr)
        sys.exit(97)
    own = os.getpid()
    # Not in the children that tests fork.
    atexit.register(lambda: write_down() if os.getpid() == own else None)
    if int(snapshots):
        Snapshots(int(snapshots) / 1000)
elif neurogc is not None:
    sys.exit(97)

import runpy  # noqa: E402

runpy.run_module("test", run_name="__main__", alter_sys=True)

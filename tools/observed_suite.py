"""Runs a file of CPython's own tests as `python -m test` would, and writes down what the agent in this process says.

    python tools/observed_suite.py REPORT POLICY WORDS…

Used by tools/cpython_suites.py. It ends with 97 where the agent is not there, or does not conduct with that policy.
"""

import atexit
import gc
import json
import os
import sys

report, policy, *words = sys.argv[1:]
# Nothing of this folder may be found by the tests, and they look at these arguments.
sys.path.pop(0)
sys.argv[:] = ["-m test", *words]

neurogc = sys.modules.get("neurogc")


def agent_threads():
    """The names of the agent's threads in this very process."""
    names = (open(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task"))
    found = set()
    for name in names:
        with name:
            found.add(name.read().strip())
    return {name for name in found if name.startswith("neurogc")}


class Ordered:
    """Counts the collections that the agent ordered: in its own thread, or in an event loop that had nothing to do."""

    count = 0

    def __call__(self, phase, info):
        caller = sys._getframe().f_back
        if phase == "start" and (caller is None or self._is_event_loop(caller.f_code)):
            self.count += 1

    @staticmethod
    def _is_event_loop(code):
        return code.co_filename.endswith(("adapters/asyncio_loop.py", "asyncio/events.py"))


ordered = Ordered()


def write_down():
    """What has happened in this process. The agent's own exit hook is older than this one, so it comes later."""
    status = neurogc.status()
    status["ordered"] = ordered.count
    with open(report, "w") as file:
        json.dump(status, file)


if policy:
    status = neurogc.status() if neurogc else {}
    if status.get("policy") != policy or status.get("degraded") or "neurogc-hand" not in agent_threads():
        print(f"the agent does not conduct: {status}, {agent_threads()}", file=sys.stderr)
        sys.exit(97)
    gc.callbacks.append(ordered)
    own = os.getpid()
    # Not in the children that tests fork.
    atexit.register(lambda: write_down() if os.getpid() == own else None)
elif neurogc is not None:
    sys.exit(97)

import runpy  # noqa: E402

runpy.run_module("test", run_name="__main__", alter_sys=True)

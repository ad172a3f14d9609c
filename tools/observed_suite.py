"""Runs a file of CPython's own tests as `python -m test` would, and writes down what the agent in this process says.

    python tools/observed_suite.py REPORT POLICY WORDS…

Used by tools/cpython_suites.py. It ends with 97 where the agent is not there, or does not conduct with that policy.
"""

import atexit
import json
import os
import sys

report, policy, *words = sys.argv[1:]
# Nothing of this folder may be found by the tests, and they look at these arguments.
sys.path.pop(0)
sys.argv[:] = ["-m test", *words]

neurogc = sys.modules.get("neurogc")


def write_down():
    """What has happened in this process. The agent's own exit hook is older than this one, so it comes later."""
    with open(report, "w") as file:
        json.dump(neurogc.status(), file)


if policy:
    status = neurogc.status() if neurogc else None
    if not status or status["policy"] != policy or status["degraded"] or not status["conduct"]["acting"]:
        print(f"the agent does not conduct: {status}", file=sys.stderr)
        sys.exit(97)
    own = os.getpid()
    # Not in the children that tests fork.
    atexit.register(lambda: write_down() if os.getpid() == own else None)
elif neurogc is not None:
    sys.exit(97)

import runpy  # noqa: E402

runpy.run_module("test", run_name="__main__", alter_sys=True)

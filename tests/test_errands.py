"""`neurogc policy` and `neurogc collect`: what people ask of a running process."""

import os
import subprocess
import sys

import pytest
from observed import TOLD_BY_LINES, ask, binary, eventually, neurogc, start

NEUROGC = binary()
pytestmark = [pytest.mark.needs_agent, pytest.mark.skipif(not NEUROGC, reason="the command has not been built")]

# A program that makes garbage in cycles on demand: a line on its stdin is evaluated, the answer is a line.
CONSOLE = TOLD_BY_LINES + """
import gc, sys, threading, time
class Node:
    pass
def garbage(count):
    for _ in range(count):
        node = Node()
        node.me = node
for line in lines():
    print(eval(line), flush=True)
"""

LOOP = """
import asyncio, sys, threading
dead, told = [], []
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
class Node:
    def __init__(self):
        self.me = self
    def __del__(self):
        dead.append(threading.current_thread() is threading.main_thread())
async def main():
    Node()
    print("ready", flush=True)
    while not told:
        await asyncio.sleep(0.01)
    print(dead, flush=True)
asyncio.run(main())
"""


BEATING = """
import asyncio, gc, sys, threading, time
gc.disable()
live = [[] for _ in range(1_500_000)]
longest, told = 0.0, []
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
class Node:
    def __init__(self):
        self.me = self
async def main():
    global longest
    for _ in range(20_000):
        Node()
    print("ready", flush=True)
    before = time.perf_counter()
    while not told:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    print(longest * 1000, flush=True)
asyncio.run(main())
"""


BY_HAND = """
import gc, sys, threading, weakref
told = []
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
class Node:
    def __init__(self):
        self.me = self
print("ready", flush=True)
while not told:
    for callback in list(gc.callbacks):
        callback("start", {"generation": 0})
        callback("stop", {"generation": 0, "collected": 0, "uncollectable": 0})
gone = weakref.ref(Node())
gc.collect()
print(gone() is None, flush=True)
"""


class Console:
    """A running program, asked line by line."""

    def __init__(self, **env):
        self.process = start(sys.executable, "-c", CONSOLE, stdin=subprocess.PIPE, **env)
        self.evaluate("None")
        eventually(lambda: ask(self.process.pid), what="the agent")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _, err = self.process.communicate(timeout=20)
        assert (self.process.returncode, err) == (0, ""), err

    def evaluate(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def status(self):
        return ask(self.process.pid)


def test_a_policy_is_changed_and_taken_back():
    with Console(NEUROGC_POLICY="observe") as console:
        before = console.evaluate("gc.get_threshold()")
        pid = console.process.pid
        assert neurogc("policy", pid, "gap", "--json") == {"before": "observe", "after": "gap"}
        status = console.status()
        assert (status["policy"], status["conduct"]["acting"], status["degraded"]) == ("gap", True, [])
        assert console.evaluate("gc.get_threshold()") == before
        console.evaluate("garbage(30000)")
        eventually(lambda: console.status()["conduct"]["orders"], what="an order of the policy")
        assert "policy changed from gap to observe" in neurogc("policy", pid, "observe")
        assert not console.status()["conduct"]["acting"]
        assert console.evaluate("gc.get_threshold()") == before
        # Only what CPython itself would have: no stand-in is left.
        assert console.evaluate("gc.get_threshold.__module__") == "gc"


def test_a_command_waits_while_the_program_calls_our_callback_itself():
    process = start(sys.executable, "-c", BY_HAND, stdin=subprocess.PIPE, NEUROGC_POLICY="observe")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    eventually(lambda: ask(process.pid), what="the agent")
    for _ in range(5):
        neurogc("collect", process.pid, "--how", "full")
    out, err = process.communicate("go on\n", timeout=20)
    assert (process.returncode, err, out) == (0, "", "True\n")


def test_a_frozen_heap_is_thawed_when_the_policy_goes():
    with Console(NEUROGC_POLICY="freeze") as console:
        eventually(lambda: console.status()["gc"]["frozen"] > 1000, what="the freeze")
        neurogc("policy", console.process.pid, "observe")
        assert int(console.evaluate("gc.get_freeze_count()")) == 0


@pytest.mark.timing
def test_an_event_loop_goes_on_while_a_snapshot_is_taken_from_outside():
    process = start(sys.executable, "-c", BEATING, stdin=subprocess.PIPE, NEUROGC_POLICY="observe")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    eventually(lambda: ask(process.pid), what="the agent")
    said = neurogc("collect", process.pid, "--how", "snapshot")
    told = ask(process.pid)["gc"]["snapshot"]
    longest, err = process.communicate("go on\n", timeout=20)
    assert (process.returncode, err) == (0, ""), err
    assert told["freed"] >= 20_000, (said, told)
    assert float(longest) < told["flight_p50_ms"] * 0.6, (longest, told)


def test_a_snapshot_is_called_off_when_the_policy_goes():
    with Console(NEUROGC_POLICY="gap") as console:
        # The policy takes none of its own meanwhile.
        console.evaluate("gc.disable()")
        console.evaluate("globals().update(os=__import__('os'), agent=__import__('neurogc')._native.agent)")
        console.evaluate("globals().update(live=[[] for _ in range(600_000)])")
        console.evaluate("agent.snapshot_launch()")
        neurogc("policy", console.process.pid, "observe")
        assert console.evaluate("agent.snapshot_look()[0]") in ("failed", "idle")
        children = "[open(f'/proc/self/task/{it}/children').read() for it in os.listdir('/proc/self/task')]"
        assert console.evaluate(f"''.join({children})") == ""


def test_a_forked_child_inherits_the_policy():
    with Console(NEUROGC_POLICY="observe") as console:
        neurogc("policy", console.process.pid, "gap")
        child = int(console.evaluate("__import__('os').fork() or time.sleep(5) or __import__('os')._exit(0)"))
        assert eventually(lambda: ask(child), what="the child's agent")["policy"] == "gap"
        os.kill(child, 9)
        console.evaluate(f"__import__('os').waitpid({child}, 0)")


def test_a_program_that_conducts_itself_is_not_conducted():
    with Console(NEUROGC_POLICY="gap") as console:
        console.evaluate("gc.set_threshold(5000, 5, 5)")
        said = neurogc("policy", console.process.pid, "gap", expect=1)
        assert "has set the collector's thresholds itself" in said
        neurogc("policy", console.process.pid, "observe")
        assert console.evaluate("gc.get_threshold()") == "(5000, 5, 5)"


@pytest.mark.parametrize(("how", "least"), [("full", 1000), ("auto", 1000), ("young", 1000)])
def test_a_collection_is_asked_for(how, least):
    with Console(NEUROGC_POLICY="observe") as console:
        console.evaluate("gc.disable()")
        console.evaluate("garbage(1000)")
        outcome = neurogc("collect", console.process.pid, "--how", how, "--json")
        assert outcome["found"] >= least and outcome["pause_ms"] > 0
        assert outcome["how"] == ("young" if how == "young" else "full")


def test_a_collection_that_is_asked_for_runs_in_the_event_loop():
    process = start(sys.executable, "-c", LOOP, stdin=subprocess.PIPE, NEUROGC_POLICY="observe")
    assert process.stdout.readline() == "ready\n"
    eventually(lambda: ask(process.pid), what="the agent")
    neurogc("collect", process.pid)
    out, err = process.communicate("end\n", timeout=20)
    assert (out, err, process.returncode) == ("[True]\n", "", 0)

"""A collection that is asked for without saying how is what the policy would do: a snapshot, where the heap is large."""

import json

import pytest
from observed import Running, ask, binary, eventually, neurogc
from snapshots import PRELUDE

pytestmark = [pytest.mark.needs_agent, pytest.mark.timing]
needs_command = pytest.mark.skipif(not binary(), reason="the command has not been built")

# The main thread beats all the time and does what lines on stdin say. "plant" makes garbage, "told" says how much of it
# is left and what the longest stop was since then, "collect" collects in another thread.
BEATING = PRELUDE + """
import json
gc.enable()
live = [[number] for number in range(1_000_000)]
gc.collect()
said, refs, longest = [], [], 0.0
def reading():
    for line in sys.stdin:
        said.append(line.strip())
threading.Thread(target=reading, daemon=True).start()
print("ready", flush=True)
before = time.perf_counter()
while True:
    time.sleep(0.001)
    now = time.perf_counter()
    longest = max(longest, now - before)
    if said:
        word = said.pop(0)
        if word == "end":
            break
        if word == "plant":
            refs = [weakref.ref(cycle()) for _ in range(1000)]
            longest = 0.0
            print("planted", flush=True)
        elif word == "told":
            print(json.dumps([sum(ref() is not None for ref in refs), longest * 1000]), flush=True)
        elif word == "collect":
            def collect():
                counts = neurogc.status()["gc"]
                counts = counts["full"]["count"], counts["snapshot"]["count"]
                found = neurogc.collect()
                after = neurogc.status()["gc"]
                full, snapshots = after["full"]["count"] - counts[0], after["snapshot"]["count"] - counts[1]
                print(json.dumps([found, full, snapshots]), flush=True)
            threading.Thread(target=collect).start()
        now = time.perf_counter()
    before = now
"""


@pytest.fixture
def program():
    """The program, with its agent at work."""
    with Running(BEATING, policy="gap", within=20) as running:
        assert running.line() == "ready"
        eventually(lambda: ask(running.pid), what="the agent")
        yield running
        running.say("end")
        running.ends()


def planted(program):
    """Makes garbage."""
    program.say("plant")
    assert program.line() == "planted"


def told(program):
    """How much of the garbage is left, and the longest stop in milliseconds."""
    program.say("told")
    return json.loads(program.line())


@needs_command
def test_asked_for_from_outside(program):
    planted(program)
    outcome = neurogc("collect", program.pid, "--json", timeout=20)
    left, stopped = told(program)
    assert outcome["how"] == "snapshot" and left == 0, (outcome, left)
    planted(program)
    outcome = neurogc("collect", program.pid, "--how", "full", "--json", timeout=20)
    left, stopped_by_full = told(program)
    assert outcome["how"] == "full" and left == 0, (outcome, left)
    assert outcome["pause_ms"] >= 0.5 * stopped_by_full, (outcome, stopped_by_full)
    assert stopped < 0.5 * stopped_by_full, (stopped, stopped_by_full)


def test_asked_for_by_the_program(program):
    planted(program)
    program.say("collect")
    found, full, snapshots = json.loads(program.line())
    left, _ = told(program)
    assert (full, snapshots >= 1, left) == (0, True, 0) and found >= 0, (found, full, snapshots, left)


def test_a_small_heap_is_collected_at_once():
    # Nothing there is worth a clone, and what the call finds is what `gc.collect()` would have found.
    code = PRELUDE + """
garbage(1000)
expected = gc.collect()
garbage(1000)
print(neurogc.collect() == expected, neurogc.status()["gc"]["snapshot"]["count"])
"""
    with Running(code, policy="gap") as program:
        assert program.ends() == "True 0\n"

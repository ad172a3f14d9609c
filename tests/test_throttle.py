"""A program that outruns the walk of its heap, or copies many of the pages that a snapshot shares with it, is held up."""

import json

import pytest
from observed import Running
from snapshots import PRELUDE

pytestmark = pytest.mark.needs_agent

# The walk of the next snapshot is stopped from outside while the program goes on.
STOPPED = PRELUDE + """
import json, signal
OUTRUNS, COPIES = "the program outruns the walk of its heap", "many pages have been copied since the snapshot was taken"
live = [[number] for number in range(400_000)]

def orders():
    return {order["reason"]: order["count"] for order in neurogc.status()["conduct"]["orders"] if order["what"] == "throttle"}

def has_stopped(pid):
    while True:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
        if state in "TZX":
            return state == "T"

def stopped_walk():
    # The walk of a snapshot that was asked for; nothing where it was over before it could be stopped.
    asking = threading.Thread(target=neurogc.collect, args=("snapshot",))
    asking.start()
    while not walkers() and asking.is_alive():
        time.sleep(0.0005)
    for pid in walkers():
        os.kill(pid, signal.SIGSTOP)
        if has_stopped(pid) and agent.snapshot_look()[0] == "in flight":
            return pid, asking
        os.kill(pid, signal.SIGCONT)
    asking.join()
    return None

def held_up(reason, step):
    gc.enable()
    # Faults that the program has without a clone are no copies: there have been many while the heap was built, and are few now.
    neurogc.collect("snapshot")
    gc.collect()
    time.sleep(0.2)
    until = time.monotonic() + 20
    while not (walk := stopped_walk()):
        assert time.monotonic() < until, "no walk could be stopped"
    until = time.monotonic() + 10
    while time.monotonic() < until:
        step()
        seen = {"orders": orders(), "throttled_ms": neurogc.status()["bound"]["throttled_ms"]}
        # How long it was is taken in at the next moment.
        if seen["orders"].get(reason) and seen["throttled_ms"]:
            break
    os.kill(walk[0], signal.SIGCONT)
    walk[1].join()
    print(json.dumps(seen))
"""

OUTRUNS = STOPPED + """
def step():
    # A fiftieth of the room.
    live.extend([number] for number in range(2_000))
held_up(OUTRUNS, step)
"""

# Reading an object writes to its count of references, and so to its page.
COPIES = STOPPED + """
def step():
    for each in live:
        pass
    for _ in range(5_000):
        cycle()
held_up(COPIES, step)
"""


@pytest.mark.parametrize("code, reason", [
    (OUTRUNS, "the program outruns the walk of its heap"),
    (COPIES, "many pages have been copied since the snapshot was taken"),
], ids=["outruns the walk", "copies pages"])
def test_a_program_is_held_up_while_a_snapshot_is_out(code, reason):
    with Running(code, policy="gap", within=40) as program:
        seen = json.loads(program.ends())
    assert seen["orders"].get(reason, 0) >= 1 and seen["throttled_ms"] > 0, seen

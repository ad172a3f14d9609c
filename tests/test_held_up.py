"""A finalizer that waits for long holds a collection of ours up once, and is said; after that no gap is used any more."""

import json

import pytest
from observed import Running

pytestmark = [pytest.mark.needs_agent]

# The end of a request is a gap, which is used where enough has gathered. CPython by itself collects where more objects have
# gathered than its threshold allows (from 3.12 on some of them may be gone again before it begins); what is collected right
# after that was ordered in its callback, and everything else at the end of a request in a gap.
# The first finalizer that runs in a gap waits until the status report has told of it, and for a moment more.
HELD_UP = """
import collections, gc, json, threading, time, neurogc
STUCK = "a collection has run for more than 5 s"
real_thresholds = neurogc._native.agent.originals.get("get_threshold", gc.get_threshold)
where, ran, is_held_up, may_go_on = collections.Counter(), 0, threading.Event(), threading.Event()
latest, at_end = None, False

def watch(phase, info):
    global latest
    if phase == "start":
        if gc.get_count()[0] + 50 > real_thresholds()[0]:
            latest = "program"
        elif at_end and latest != "program":
            latest = "gap"
        else:
            latest = "callback"
        where[latest] += 1

class Node:
    def __init__(self):
        self.me = self
    def __del__(self):
        global ran
        ran += 1
        if latest == "gap" and not is_held_up.is_set():
            is_held_up.set()
            may_go_on.wait()

def told():
    return [reason for reason in neurogc.status()["degraded"] if STUCK in reason]

def free_it():
    is_held_up.wait()
    while not told():
        time.sleep(0.02)
    time.sleep(1)
    said.extend(told())
    may_go_on.set()

def serve(times):
    global at_end, latest
    for _ in range(times):
        request = neurogc.request().__enter__()
        for _ in range(100):
            Node()
        kept.append([[number] for number in range(100)])
        at_end, latest = True, None
        request.__exit__()
        at_end = False
        time.sleep(0.001)

said, kept = [], []
gc.callbacks.append(watch)
helper = threading.Thread(target=free_it)
helper.start()
until = time.monotonic() + 10
while not is_held_up.is_set() and time.monotonic() < until:
    serve(1)
helper.join()
before, ran = dict(where), 0
where.clear()
serve(600)
print(json.dumps({"before": before, "after": where, "ran": ran, "said": said, "degraded": neurogc.status()["degraded"],
                  "acting": neurogc.status()["conduct"]["acting"]}))
"""


@pytest.mark.long(8)
def test_a_finalizer_that_waits_for_long_is_not_met_in_a_gap_again():
    with Running(HELD_UP, policy="gap", within=40) as program:
        seen = json.loads(program.ends())
    assert seen["before"]["gap"] >= 1 and len(seen["said"]) == 1, seen
    assert "gap" not in seen["after"] and seen["after"]["program"] > 0, seen
    # The pacer goes on at the ends of CPython's own collections, and garbage does not pile up.
    assert seen["ran"] >= 0.6 * 60_000 and seen["acting"], seen
    held_up = [reason for reason in seen["degraded"] if "a finalizer held a collection up for" in reason]
    assert len(held_up) == 1 and len(seen["degraded"]) == 2, seen

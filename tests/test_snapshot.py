"""What a snapshot frees is what `gc.collect()` frees, whatever the program does meanwhile."""

import json
import os

import pytest
from observed import ROOT
from snapshots import app, snap

pytestmark = pytest.mark.needs_agent

# `make soak` has these and larger heaps.
LIVE = [int(size) for size in os.environ.get("NEUROGC_TEST_LIVE", "200000").split(",")]


def both(live, garbage, save):
    """The same heap collected in two processes by the two methods."""
    return [json.loads(app("mixed_graph.py", how, str(live), str(garbage), save, timeout=600)) for how in ("full", "snapshot")]


@pytest.mark.parametrize("live", LIVE)
def test_the_same_is_freed_as_by_a_full_collection(live):
    full, snapshot = both(live, 4_000, "0")
    assert full["found"] > 50_000 and full["log"], "there was something to free"
    assert not [line for line in full["log"] if line.startswith("never")]
    assert snapshot == full


@pytest.mark.parametrize("live", LIVE)
def test_the_same_is_found_as_by_a_full_collection(live):
    full, snapshot = both(live, 2_000, "1")
    assert sum(count for _, count in full["saved"]) > 20_000
    assert snapshot == full


def test_random_graphs_are_judged_as_by_a_full_collection():
    fuzz = str(ROOT / "tools" / "fuzz_graphs.py")
    snap(f"import runpy; sys.argv = ['fuzz', '--graphs', '3000', '--seed', '{os.getpid()}']\n"
         f"try:\n    runpy.run_path({fuzz!r}, run_name='__main__')\nexcept SystemExit as end:\n    assert not end.code, end.code",
         timeout=120)


def test_a_slice_keeps_to_its_budget_and_components_stay_whole():
    snap("""
for size in (3, 10, 50) * 200:
    ring = [Node() for _ in range(size)]
    for one, other in zip(ring, ring[1:] + ring[:1]):
        one.other = other
del ring, one, other
big = [Node() for _ in range(20_000)]
for one, other in zip(big, big[1:] + big[:1]):
    one.other = other
del big, one, other
word, (candidates, components, largest) = fly()
assert word == "ready" and candidates >= 30_000 and components >= 600 and largest >= 20_000, (candidates, components, largest)
slices, empty = [], 0
while empty < 20:
    freed, moved, dropped, left, pause_ns = agent.snapshot_reap(0.5, False)
    assert freed == moved and dropped == 0, (freed, moved, dropped)
    if moved:
        slices.append(moved)
    else:
        empty += 1
# The large one is left: it does not fit.
word, (candidates, components, largest) = agent.snapshot_look()
assert word == "ready" and components == 1 and candidates == largest >= 20_000, (word, candidates, components)
assert len(slices) > 5 and max(slices) < 5_000, slices
freed, moved, dropped, left, pause_ns = agent.snapshot_reap(0.5, True)
assert (freed, left) == (largest, 0), (freed, left)
assert agent.snapshot_look()[0] == "idle" and gc.collect() == 0
nothing_is_left()
""")


def test_young_objects_are_left_alone_by_a_slice():
    snap("""
garbage(100)
assert fly()[0] == "ready"
young = [Node() for _ in range(1000)]
cycle()
before = gc.get_count()[0]
freed, moved, dropped = drain()
assert freed == moved >= 200 and dropped == 0, (freed, moved, dropped)
assert abs(gc.get_count()[0] - before) < 50, (before, gc.get_count())
# What became garbage after the clone is found by the next one only; it is still young and whole.
assert set(map(id, young)) <= set(map(id, gc.get_objects(generation=0)))
assert gc.collect(0) >= 2
""")


def test_finalizers_run_in_the_order_of_the_collector():
    code = """
order = []
class Closing:
    def __init__(self, number):
        self.number = number
    def __del__(self):
        order.append(self.number)
ring = [Closing(number) for number in range(1000)]
for one, other in zip(ring, ring[1:] + ring[:1]):
    one.other = other
del ring, one, other
assert neurogc.collect(HOW) >= 1000
print(order)
"""
    assert snap("HOW = 'snapshot'" + code) == snap("HOW = 'full'" + code)


def test_what_comes_back_to_life_in_flight_lives():
    snap("""
weak = []
for number in range(5000):
    one = cycle(number=number, payload=[number])
    weak.append(weakref.ref(one))
del one
agent.snapshot_launch()
# The walk sees them dead; a weak reference brings some of them back.
back = [ref() for ref in weak[::3]]
assert all(back)
assert wait()[0] == "ready"
freed, moved, dropped = drain()
for one in back:
    assert one.other.other is one and one.payload == [one.number]
assert sum(ref() is None for ref in weak) == len(weak) - len(back)
back.clear()
del one
gc.collect()
assert not any(ref() for ref in weak)
""")


def test_threads_that_change_everything_in_flight_lose_nothing():
    snap("""
import random
alive = {number: cycle(number=number, check=[number]) for number in range(20_000)}
weak = weakref.WeakValueDictionary()
stop = False
lost = []
def churn(seed):
    rng = random.Random(seed)
    while not stop:
        number = rng.randrange(20_000)
        one = alive.pop(number, None) or weak.get(number)
        if one is not None:
            weak[number] = one
            if rng.random() < 0.5:
                alive[number] = one
        else:
            alive[number] = cycle(number=number, check=[number])
        for number in rng.sample(range(20_000), 5):
            one = alive.get(number)
            if one is not None and (one.number != number or one.check != [number] or one.other.other is not one):
                lost.append(number)
threads = [threading.Thread(target=churn, args=(seed,), daemon=True) for seed in range(3)]
for thread in threads:
    thread.start()
end = time.monotonic() + 2
rounds = freed = 0
while time.monotonic() < end or rounds < 5:
    freed += snapshot()
    rounds += 1
stop = True
for thread in threads:
    thread.join()
assert not lost and rounds >= 5 and freed > 1000, (lost[:5], rounds, freed)
for number, one in alive.items():
    assert one.number == number and one.check == [number] and one.other.other is one
gc.collect()
nothing_is_left()
""")


def test_a_program_that_never_rests_keeps_what_it_holds():
    seen = json.loads(app("snapshot_stress.py", "3"))
    assert seen["flights"] >= 3 and seen["freed"] > 1000 and seen["dropped"] > 0, seen


def test_addresses_that_are_used_again_are_not_mistaken():
    snap("""
weak = [weakref.ref(cycle()) for _ in range(20_000)]
agent.snapshot_launch()
# All of it is freed by reference counting, and others take its place: of the same kind, and of another.
for ref in weak:
    one = ref()
    if one is not None:
        one.other = None
del one
anew = [Node() for _ in range(20_000)]
for node in anew:
    node.itself = node
others = [[index] * 4 for index in range(20_000)]
assert wait()[0] in ("ready", "idle")
freed, moved, dropped = drain()
assert dropped > 1000, (freed, moved, dropped)
assert all(node.itself is node for node in anew)
assert all(other == [index] * 4 for index, other in enumerate(others))
assert len(gc.get_objects()) > 40_000
""")


def test_arenas_that_are_given_back_in_flight_can_still_be_looked_at():
    snap("""
weak = [weakref.ref(cycle(more=[i, {i: i}])) for i in range(200_000)]
agent.snapshot_launch()
for ref in weak:
    one = ref()
    one.other = None
del one, weak
freed, moved, dropped = (wait(), drain())[1]
assert dropped > 100_000, (freed, moved, dropped)
nothing_is_left()
""")


def test_objects_from_malloc_are_freed_too():
    code = """
assert fly()[0] in ("idle", "ready")
drain()
garbage(3000)
big = tuple([] for _ in range(1000))
big[0].append(big)
del big
assert neurogc.collect("snapshot") >= 6000
assert gc.collect() == 0 and not failed(), failed()
"""
    snap(code)
    snap(code, PYTHONMALLOC="malloc")
    snap(code, PYTHONMALLOC="debug")


def test_a_full_collection_in_flight_voids_the_snapshot():
    snap("""
garbage(5000)
agent.snapshot_launch()
assert gc.collect() >= 10_000
word, reason = wait()
if word == "ready":
    # The flight was faster.
    assert agent.snapshot_reap(5, True)[0] == 0
    word, reason = agent.snapshot_look()
assert word == "failed" and "full collection" in reason, (word, reason)
assert failed() == {"collected": 1}
gc.collect()
nothing_is_left()
# The next one is as good as any.
garbage(100)
assert neurogc.collect("snapshot") >= 200
""")


def test_a_full_collection_between_slices_voids_the_rest():
    snap("""
garbage(20_000)
assert fly()[0] == "ready"
assert agent.snapshot_reap(1, False)[0] > 0
assert gc.collect() > 0
assert agent.snapshot_reap(1, False)[:2] == (0, 0)
assert "full collection" in agent.snapshot_look()[1]
nothing_is_left()
""")


def test_freezing_in_flight_voids_the_snapshot():
    snap("""
garbage(5000)
agent.snapshot_launch()
gc.freeze()
word, reason = wait()
assert word == "ready"
assert agent.snapshot_reap(5, True)[:2] == (0, 0)
assert "froze" in agent.snapshot_look()[1]
gc.collect(0)
nothing_is_left()
gc.unfreeze()
assert neurogc.collect("snapshot") >= 10_000
""")


def test_what_died_frozen_is_found():
    snap("""
live = [Node() for _ in range(100)]
live[0].rest = live
garbage(1000)
gc.freeze()
assert gc.collect() == 0, "a full collection does not see them"
frozen = gc.get_freeze_count()
assert neurogc.collect("snapshot") >= 2000
assert gc.get_freeze_count() <= frozen - 2000 and len(live[0].rest) == 100
""")


def test_collections_go_on_in_flight_and_after_a_full_one_there_is_nothing_left_to_free():
    snap("""
live = [cycle() for _ in range(100_000)]
gc.collect()
gc.set_threshold(100, 2, 2)
agent.snapshot_launch()
before = gc.get_stats()
gc.enable()
# Enough that a full collection would have come twice.
more = [cycle() for _ in range(100_000)]
gc.disable()
after = gc.get_stats()
assert after[0]["collections"] - before[0]["collections"] > 100
assert after[1]["collections"] - before[1]["collections"] > 30
assert after[2]["collections"] > before[2]["collections"]
wait()
agent.snapshot_reap(5, True)
assert failed() == {"collected": 1}, failed()
# The next one is as good as ever.
garbage(1000)
assert neurogc.collect("snapshot") >= 1000
""")


def test_a_finalizer_may_collect_and_snapshot():
    snap("""
answers = []
class Asking:
    def __init__(self):
        self.me = self
    def __del__(self):
        answers.append((neurogc.collect("snapshot"), gc.collect()))
        try:
            agent.snapshot_launch()
        except RuntimeError as error:
            answers.append(str(error))
Asking()
garbage(10)
assert neurogc.collect("snapshot") >= 20
assert answers[0] == (0, 0) and "under way" in answers[1], answers
assert neurogc.collect("snapshot") == 0
nothing_is_left()
""")


def test_the_collectors_books_are_as_after_a_full_collection():
    snap("""
live = [cycle() for _ in range(50_000)]
garbage(5000)
neurogc.collect("snapshot")
assert gc_pending() == 0, gc_pending()
assert gc.get_count()[1:] == (0, 0), gc.get_count()
assert gc.get_objects(generation=1) == [] and gc.get_objects(generation=0) != gc.get_objects(generation=2)
""")


def test_the_status_report_tells_of_snapshots():
    snap("""
for _ in range(3):
    garbage(100)
    neurogc.collect("snapshot")
gc_status = neurogc.status()["gc"]
told = gc_status["snapshot"]
assert (told["count"], told["failed"]) == (3, 0) and told["freed"] == told["candidates"] >= 600, told
assert 0 < told["clone_p50_ms"] <= told["clone_max_ms"] and told["flight_p50_ms"] > 0, told
assert told["copied_ms"] >= told["latest_copied_ms"] > 0, told
assert gc_status["reap"]["count"] == 3 and gc_status["reap"]["max_ms"] > 0, gc_status["reap"]
""")


def test_a_subinterpreter_beside_it_is_left_alone():
    snap("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
ready, end = os.pipe(), os.pipe()
# From 3.12 on it has a GIL of its own, so that it changes its objects even during the clone.
work = f'''
import os
os.set_blocking({end[0]}, False)
kept, told = [[] for _ in range(1000)], False
while True:
    for index in range(1000):
        kept[index] = [kept[index - 1], {{}}]
        kept[index][0] = kept[index]
    if not told:
        told = os.write({ready[1]}, b"x")
    try:
        os.read({end[0]}, 1)
        break
    except BlockingIOError:
        pass
'''
execute = getattr(interpreters, "exec", None) or interpreters.run_string
def run():
    try:
        execute(other, work)
    except Exception as error:
        print(error)
thread = threading.Thread(target=run)
thread.start()
os.read(ready[0], 1)
for _ in range(10):
    garbage(500)
    assert neurogc.collect("snapshot") >= 1000, failed()
os.write(end[1], b"x")
thread.join()
interpreters.destroy(other)
nothing_is_left()
""")

"""What a program sees of its collector under a policy that conducts: the same as without us.

Where both can be compared, a program runs with and without the agent and must print the same. Where our collections
come in between, what they may and may not do is stated.
"""

import pytest
from observed import python, stock

pytestmark = pytest.mark.needs_agent

NODES = """
import asyncio, gc, os, sys, threading, time, weakref
class Node:
    def __init__(self, **fields):
        self.me = self
        self.__dict__.update(fields)
# From 3.15 on there are others, which no two collections have in common.
COUNTED = ("collections", "collected", "uncollectable")
def cycles(count):
    for _ in range(count):
        Node()
def forget():
    # So often that a policy which only looks at gaps cannot miss it.
    for _ in range(200):
        cycles(100)
        time.sleep(0.002)
"""


def conducted(code, *options, policy="gap", **env):
    """Runs code under a policy that conducts."""
    return python(NODES + code, *options, NEUROGC_POLICY=policy, **env)


def alone(code):
    """Runs code without us."""
    return stock(NODES + code)


SAME = {
    "collect counts what it frees": """
gc.collect()
for generation in (0, 1, 2):
    cycles(50)
    print(gc.collect(generation), gc.collect(generation=generation))
cycles(50)
print(gc.collect())
""",
    "collect takes what it took": """
for words, keywords in [((3,), {}), ((-1,), {}), (("0",), {}), ((0, 1), {}), ((), {"how": 1})]:
    try:
        print(gc.collect(*words, **keywords))
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
""",
    "thresholds are the program's": """
print(gc.get_threshold())
gc.set_threshold(123)
print(gc.get_threshold())
gc.set_threshold(0)
print(gc.get_threshold())
gc.set_threshold(4, 5, 6)
print(gc.get_threshold(), type(gc.get_threshold()))
""",
    "a wrong threshold changes nothing": """
for words, keywords in [((), {}), (("a",), {}), ((1, 2, 3, 4), {}), ((1.5,), {}), ((), {"threshold0": 1})]:
    try:
        gc.set_threshold(*words, **keywords)
    except TypeError as error:
        print(type(error).__name__)
print(gc.get_threshold())
""",
    "its functions look the same": """
import inspect
for function in (gc.get_threshold, gc.set_threshold, gc.collect):
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError) as error:
        signature = type(error).__name__
    print(signature, function.__module__, function.__name__, function.__qualname__, function.__text_signature__)
    print(type(function).__name__, function.__self__ is gc, repr(function), inspect.isbuiltin(function))
    print(function.__doc__)
""",
    "a threshold that was set is obeyed": """
gc.collect()
gc.set_threshold(50, 2, 2)
before = [each["collections"] for each in gc.get_stats()]
kept = [[] for _ in range(1000)]
after = [each["collections"] for each in gc.get_stats()]
print([after[at] - before[at] > 0 for at in range(3)], after[0] - before[0] in range(10, 25))
""",
    "switched off means off": """
gc.disable()
before = gc.get_stats()
alive = [weakref.ref(Node()) for _ in range(5000)]
print(gc.isenabled(), gc.get_stats() == before, all(each() for each in alive))
gc.enable()
print(gc.isenabled(), gc.collect() >= 5000, any(each() for each in alive))
""",
    "freezing is the program's": """
at_first = gc.get_freeze_count()
gc.collect()
live = len(gc.get_objects())
gc.freeze()
frozen = gc.get_freeze_count()
print(abs(frozen - at_first - live) < 20, len(gc.get_objects()) < 20)
kept = Node()
print(any(each is kept for each in gc.get_objects()), gc.get_freeze_count() == frozen)
gc.unfreeze()
print(gc.get_freeze_count(), len(gc.get_objects()) > live)
""",
    "objects are in the generation where they belong": """
gc.collect()
kept = Node()
def where():
    return [any(each is kept for each in gc.get_objects(generation=at)) for at in range(3)]
print(where())
gc.collect(0)
print(where())
gc.collect(1)
print(where(), any(each is kept for each in gc.get_objects()))
""",
    "counters and statistics go on": """
gc.collect()
print(gc.get_count()[1:])
kept = [[] for _ in range(300)]
print(300 <= gc.get_count()[0] < 400)
before = gc.get_stats()
cycles(40)
print(gc.collect(0), gc.get_count()[1:])
after = gc.get_stats()
print([{name: after[at][name] - before[at][name] for name in COUNTED} for at in range(3)])
""",
    "callbacks are called in their order, with what they were called with": """
seen = []
def first(phase, info):
    seen.append(("first", phase, sorted(info), info["generation"], info["collected"], info["uncollectable"]))
def second(phase, info):
    seen.append(("second", phase, sorted(info), info["generation"], info["collected"], info["uncollectable"]))
gc.collect()
gc.callbacks.append(first)
gc.callbacks.append(second)
cycles(10)
gc.collect()
gc.callbacks.remove(first)
gc.collect(0)
gc.callbacks.remove(second)
gc.collect(1)
for each in seen:
    print(each)
""",
    "a callback that fails is the program's own affair": """
caught = []
sys.unraisablehook = lambda error: caught.append((error.exc_type, error.exc_value.args))
def failing(phase, info):
    raise KeyError(phase)
gc.callbacks.insert(0, failing)
gc.collect()
gc.callbacks.remove(failing)
print(caught)
""",
    "saved garbage is kept": """
gc.collect()
gc.set_debug(gc.DEBUG_SAVEALL)
cycles(5)
print(gc.collect(), sum(isinstance(each, Node) for each in gc.garbage), gc.get_debug())
gc.set_debug(0)
gc.garbage.clear()
print(gc.collect() > 0, gc.garbage)
""",
    "what holds what is told": """
kept = Node()
holder = [kept]
print(holder in gc.get_referrers(kept), kept in gc.get_referents(holder), gc.is_tracked(kept), gc.is_finalized(kept))
""",
    "finalizers and weak references in a collection of the program": """
seen = []
class Final(Node):
    def __del__(self):
        seen.append(("final", self.name, threading.current_thread() is threading.main_thread()))
gc.collect()
kept = weakref.ref(Final(name="a"), lambda ref: seen.append(("weak", ref() is None)))
print(gc.collect(0), seen)
""",
    "resurrection": """
saved = []
class Lazarus(Node):
    def __del__(self):
        saved.append(self)
Lazarus()
gc.collect()
print(len(saved), gc.is_finalized(saved[0]))
saved.clear()
gc.collect()
print(len(saved))
""",
}


@pytest.mark.parametrize("code", SAME.values(), ids=SAME)
def test_the_same_as_without_us(code):
    assert conducted(code) == alone(code)


def test_thresholds_before_anything_is_set_are_those_of_cpython():
    assert conducted("print(gc.get_threshold())\nforget()\nprint(gc.get_threshold())") == 2 * alone(
        "print(gc.get_threshold())"
    )


@pytest.mark.parametrize("how", ["gc.set_threshold(900, 9, 9)", "gc.set_threshold(0)",
                                 pytest.param("gc.set_threshold(900)", marks=pytest.mark.twice)])
def test_a_program_that_sets_thresholds_is_left_alone(how):
    conducted(f"""
import neurogc
cycles(100)
time.sleep(0.1)
{how}
thresholds = gc.get_threshold()
orders = []
gc.callbacks.append(lambda phase, info: orders.append(threading.get_ident()))
forget()
time.sleep(2.5)     # when start-up is over, everything would be collected
assert gc.get_threshold() == thresholds, gc.get_threshold()
assert set(orders) <= {{threading.main_thread().ident}}, orders
assert bool(orders) == bool(thresholds[0])
assert any("stands down" in reason for reason in neurogc.status()["degraded"])
""")


def test_a_wrong_threshold_leaves_the_policy_at_work():
    conducted("""
import neurogc
from neurogc import _agent
real = _agent.originals["get_threshold"]
time.sleep(0.2)
def changes(wrong):
    before = real()
    try:
        gc.set_threshold(*wrong)
    except TypeError:
        pass
    return real() != before
for wrong in (("a",), (), (1, 2, 3, 4), (1.5,)):
    # The policy itself may change them in between, now and then.
    assert not all(changes(wrong) for _ in range(3)), (wrong, real())
assert not any("stands down" in reason for reason in neurogc.status()["degraded"])
""")


def test_nothing_is_collected_between_disable_and_enable():
    conducted("""
forget()
gc.disable()
time.sleep(0.05)    # one that had begun
before = gc.get_stats()
# Garbage enough for every rule and every guard.
for _ in range(40):
    for _ in range(100):
        Node(ballast=bytearray(50_000))
    time.sleep(0.02)
time.sleep(2.5)
assert gc.get_stats() == before
gc.enable()
deadline = time.monotonic() + 20
while gc.get_stats()[0] == before[0]:
    assert time.monotonic() < deadline, gc.get_stats()
    cycles(100)
    time.sleep(0.01)
""")


@pytest.mark.timing
def test_a_collection_of_ours_is_told_like_any_other():
    conducted("""
seen = []
gc.callbacks.append(lambda phase, info: seen.append((phase, sorted(info), info["generation"], threading.get_ident())))
gc.collect()
[(_, keys, *_), _] = seen
before = gc.get_stats()
seen.clear()
forget()
assert {each[3] for each in seen} == {threading.get_ident()}, seen
for start, stop in zip(seen[::2], seen[1::2]):
    assert (start[0], stop[0]) == ("start", "stop") and start[2:] == stop[2:]
    assert start[1] == stop[1] == keys
told = [sum(each[0] == "stop" and each[2] == at for each in seen) for at in range(3)]
after = gc.get_stats()
assert told == [after[at]["collections"] - before[at]["collections"] for at in range(3)], (told, before, after)
""")


@pytest.mark.parametrize("how", ["gc.callbacks.clear()",
                                 pytest.param("gc.callbacks[:] = [print_nothing]", marks=pytest.mark.twice),
                                 pytest.param("del gc.callbacks[:]", marks=pytest.mark.twice)])
def test_a_program_that_clears_the_callbacks_is_not_collected_to_death(how):
    conducted(f"""
import neurogc
def print_nothing(phase, info): pass
forget()
{how}
before = gc.get_stats()
# A heap that grows beyond what the guards allow: without the callback the agent does not see collections.
kept = [Node(ballast=bytearray(2000)) for _ in range(100_000)]
for _ in range(300):
    kept.append(Node())
    time.sleep(0.005)
full = gc.get_stats()[2]["collections"] - before[2]["collections"]
assert full <= 5, (full, neurogc.status()["gc"])
neurogc.uninstall()
""")


def test_calling_our_callback_does_no_harm():
    conducted("""
import neurogc
for callback in list(gc.callbacks):
    for phase in ("start", "stop", "stop", "", "else", "start"):
        callback(phase, {})
        callback(phase, {"generation": 2, "collected": -1, "uncollectable": "many"})
        callback(phase, {"generation": 10**30, "collected": 10**30})
    for wrong in ((), (1,), (1, 2), ("start",), ("start", None), ("stop", [])):
        try:
            callback(*wrong)
        except TypeError:
            pass
cycles(10)
assert gc.collect() >= 10
forget()
assert neurogc.status()["gc"]["young"]["count"] > 0
""")


def test_saved_garbage_is_saved_once_in_our_collections_too():
    conducted("""
gc.collect()
gc.set_debug(gc.DEBUG_SAVEALL)
wanted = 200
nodes = [Node(number=number) for number in range(wanted)]
nodes.clear()
kept = []
deadline = time.monotonic() + 20
def numbers():
    return [each.number for each in gc.garbage if type(each) is Node and hasattr(each, "number")]
while len(numbers()) < wanted:
    assert time.monotonic() < deadline
    kept.append([[] for _ in range(2000)])
    time.sleep(0.005)
assert sorted(numbers()) == list(range(wanted))
gc.set_debug(0)
gc.garbage.clear()
""")


ONCE = """
import collections
final, weak, threads = collections.Counter(), collections.Counter(), set()
class Final(Node):
    def __del__(self):
        final[self.number] += 1
        threads.add(threading.get_ident())
refs = []
def make(start, count):
    for number in range(start, start + count):
        node = Final(number=number)
        def gone(ref, number=number):
            weak[number] += 1
            threads.add(threading.get_ident())
        refs.append(weakref.ref(node, gone))
"""


@pytest.mark.timing
def test_finalizers_and_weak_references_run_once_in_the_thread_of_the_event_loop():
    conducted(ONCE + """
async def main():
    for start in range(0, 20_000, 50):
        make(start, 50)
        await asyncio.sleep(0.002)
    # Not ordered by the program from here on.
    assert len(final) > 10_000 and set(final.values()) == {1} and final == weak, (len(final), len(weak))
    assert threads == {threading.get_ident()}, threads
loop = threading.Thread(target=asyncio.run, args=(main(),))
loop.start()
loop.join()
import neurogc
assert neurogc.status()["gc"]["in_gap"]["count"] > 2
gc.collect()
assert len(final) == 20_000 and set(final.values()) == {1} and final == weak
""")


@pytest.mark.timing
def test_finalizers_and_weak_references_run_once_without_an_event_loop():
    conducted(ONCE + """
for start in range(0, 20_000, 50):
    make(start, 50)
    time.sleep(0.002)
assert len(final) > 10_000, len(final)
# Beside a thread that collects, gc.collect() does nothing, as always in CPython.
deadline = time.monotonic() + 10
while len(final) < 20_000 and time.monotonic() < deadline:
    gc.collect()
    time.sleep(0.01)
assert len(final) == 20_000 and set(final.values()) == {1} and final == weak
""")


@pytest.mark.timing
def test_a_finalizer_that_fails_is_reported_and_nothing_else():
    conducted("""
import neurogc
caught = []
sys.unraisablehook = lambda error: caught.append(error.exc_type)
class Failing(Node):
    def __del__(self):
        raise KeyError
for _ in range(200):
    [Failing() for _ in range(20)]
    cycles(50)
    time.sleep(0.002)
assert len(caught) > 1000 and set(caught) == {KeyError}, caught[:3]
assert neurogc.status()["degraded"] == []
""")


@pytest.mark.timing
def test_a_collection_within_a_collection_is_none():
    assert set(conducted("""
inner = []
class Collecting(Node):
    def __del__(self):
        inner.append(gc.collect())
for _ in range(100):
    [Collecting() for _ in range(5)]
    cycles(100)
    time.sleep(0.002)
print(*sorted(set(inner)))
""").split()) == {"0"}


def test_thresholds_come_back_with_the_end_of_the_agent():
    conducted("""
import neurogc
real = neurogc._native.agent.originals["get_threshold"]
defaults = gc.get_threshold()
forget()
assert real() != defaults
neurogc.uninstall()
assert gc.get_threshold is real and real() == defaults
assert gc.set_threshold.__module__ == "gc"
""")

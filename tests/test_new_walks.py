"""Walks of new objects: what is new, and the memory of old objects, which the clone lets go of so that the program writes to
it without copying pages.
"""

import pytest
from snapshots import snap

pytestmark = pytest.mark.needs_agent

STORE = """
MB = 1 << 20
# A full collection would string all objects anew, and which of them are new would not be known.
gc.disable()

class Row:
    __slots__ = ("number", "before")

# Objects that are there for ever, in about 80 MB of arenas that they fill.
store = [None] * 400_000
for number in range(len(store)):
    row = store[number] = Row()
    row.number, row.before = number + 0.5, [store[number // 2]]
del row

def latest():
    return agent.snapshot_figures()["latest"]

def fly_new(found, fails=()):
    # Some garbage, and a walk of new objects that must find it all.
    garbage(found)
    while True:
        agent.snapshot_launch(True)
        word, more = wait()
        if word == "ready":
            break
        # One that was late says nothing but that the machine is busy.
        assert set(failed()) <= {"late", *fails}, (more, failed())
    drain()
    assert latest()["candidates"] >= 2 * found, latest()

snapshot()
snapshot()
"""


def test_old_objects_are_not_in_the_clone_and_garbage_is_found():
    snap(STORE + """
for flight in range(6):
    fly_new(1_000)
    if flight == 0:
        assert latest()["without_bytes"] == 0, "it is not known yet what can be done without"
assert latest()["without_bytes"] >= 40 * MB, latest()
assert latest()["tracked"] < 100_000 and set(failed()) <= {"late"}
# The program has it all, and so have its children, also in the middle of a walk.
def is_whole():
    return sum(row.number for row in store) == len(store) ** 2 / 2

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(not is_whole())
    return pid

live = [cycle() for _ in range(100_000)]
agent.snapshot_launch(True)
children = [fork() for _ in range(3)]
assert is_whole() and wait()[0] in ("ready", "failed")
drain()
children.append(fork())
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
# A walk of everything sees everything.
garbage(1_000)
assert snapshot() >= 2_000 and latest()["tracked"] > 800_000 and latest()["without_bytes"] == 0
nothing_is_left()
""")


def test_the_clone_does_not_keep_the_memory_of_old_objects():
    snap(STORE + """
import contextlib
def resident():
    # What the clone has during most of a long walk of new objects.
    live, seen = [cycle() for _ in range(150_000)], []
    while not seen:
        agent.snapshot_launch(True)
        while agent.snapshot_look()[0] == "in flight":
            for pid in walkers():
                # It may end meanwhile.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/statm") as numbers:
                    seen.append(int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        wait()
        drain()
    return sorted(seen)[len(seen) // 2]

first = resident()
for _ in range(5):
    fly_new(1_000)
later = resident()
assert latest()["without_bytes"] >= 40 * MB, latest()
assert later < first - 40 * MB, (first, later)
""")


def test_memory_that_is_mostly_free_is_not_done_without():
    snap(STORE + """
for _ in range(8):
    # What most of the memory is needed for now and then is garbage when walks look.
    live = [cycle() for _ in range(150_000)]
    fly_new(1_000)
    del live
    fly_new(100)
    fly_new(100)
assert latest()["without_bytes"] >= 40 * MB and set(failed()) <= {"late"}, (latest(), failed())
""")


def test_new_objects_among_old_ones_cost_walks_and_no_garbage():
    snap(STORE + """
for _ in range(6):
    fly_new(1_000)
assert latest()["without_bytes"] >= 40 * MB, latest()
# Holes all over the old objects, which new ones fill.
for number in range(0, len(store), 64):
    store[number] = None
made = [cycle() for _ in range(20_000)]
fly_new(1_000, fails=("missing",))
assert failed().get("missing") == 3, failed()
assert latest()["without_bytes"] == 0, "after so many, the next ones see everything"
del made
fly_new(1_000, fails=("missing",))
assert latest()["candidates"] >= 40_000 and failed().get("missing") == 3
nothing_is_left()
""")


def test_after_a_full_collection_new_is_what_comes_then():
    snap("""
gc.disable()
live = [[number] for number in range(30_000)]
def seen(new):
    agent.snapshot_launch(new)
    assert wait()[0] == "ready", failed()
    drain()
    return agent.snapshot_figures()["latest"]["tracked"]

for policy in ("gap", "observe"):
    neurogc.install(policy=policy)
    assert seen(False) > 30_000
    gc.collect()
    garbage(1_000)
    # Where no policy acts, nothing of CPython's is touched.
    assert (seen(True) < 10_000) == (policy == "gap"), agent.snapshot_figures()["latest"]
    neurogc.uninstall()
""")

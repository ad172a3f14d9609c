"""Arenas in huge pages: a large heap lies in them, a small one does not, and nothing else changes."""

import json
import sys
from pathlib import Path

import pytest
from observed import python
from snapshots import PRELUDE, app, extension, snap

THP = Path("/sys/kernel/mm/transparent_hugepage")


def possible():
    try:
        offered = "[never]" not in (THP / "enabled").read_text()
        return offered and int((THP / "hpage_pmd_size").read_text()) == 2 << 20
    except OSError:
        return False


pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not possible(), reason="this machine has no transparent huge pages of 2 MiB"),
]

# A policy that acts, or there are no huge pages, but gives no orders while collection is disabled.
ACTS = {"NEUROGC_POLICY": "threshold:700,10,10", "NEUROGC_HUGE_ARENAS": "true"}

MEMORY = """
import time

def smaps(name):
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024

def mappings():
    with open("/proc/self/maps") as lines:
        return sum(1 for line in lines)

def soon(check, within=10):
    # Pages are looked after a few times in a second.
    deadline = time.monotonic() + within
    while not check():
        assert time.monotonic() < deadline, (smaps("AnonHugePages"), smaps("Rss"))
        time.sleep(0.05)

def heap(megabytes):
    # Objects of 496 bytes, in one flat list.
    return [bytes(463) for _ in range(megabytes * 2048)]
"""


def huge(code, *options, **keywords):
    return snap(code, *options, prelude=PRELUDE + MEMORY, **(ACTS | keywords))


def test_a_large_heap_lies_in_huge_pages():
    huge("""
before = mappings()
data = heap(200)
assert smaps("AnonHugePages") > 140, smaps("AnonHugePages")
# One mapping for each 2 MiB would cost the clone what the pages save.
assert mappings() < before + 60, (before, mappings())
""")


@pytest.mark.twice
def test_memory_goes_back_when_objects_do():
    huge("""
small = smaps("Rss")
for _ in range(3):
    data = heap(200)
    assert smaps("Rss") > small + 190
    del data
    # libc keeps the memory of the list for itself, and what lay between sampled objects: up to 4 MB each.
    soon(lambda: smaps("Rss") < small + 12 and smaps("AnonHugePages") <= 4)
""")


@pytest.mark.twice
def test_the_half_of_a_page_goes_back_when_only_the_other_is_used():
    huge("""
data = heap(300)
full = smaps("Rss")
# A few objects here and there keep every third arena.
kept = [one for at in range(0, len(data), 3 * 2100) for one in data[at:at + 20]]
del data
soon(lambda: smaps("Rss") < full * 0.55)
assert all(one == bytes(463) for one in kept)
""")


def test_a_half_used_page_is_filled_before_another_is_taken():
    huge("""
data = heap(200)
full = smaps("Rss")
for _ in range(5):
    # Whole arenas here and there come free and are taken again.
    for at in range(0, len(data), 16384):
        data[at:at + 8192] = [None] * 8192
    data = [one if one is not None else bytes(463) for one in data]
soon(lambda: smaps("Rss") < full + 12)
""")


def test_small_programs_have_no_huge_pages():
    code = MEMORY + "data = heap(8)\nprint(smaps('AnonHugePages'), smaps('Rss'))"
    with_them = [float(word) for word in python(code, **ACTS).split()]
    without = [float(word) for word in python(code, **(ACTS | {"NEUROGC_HUGE_ARENAS": "false"})).split()]
    assert with_them[0] == without[0] == 0
    assert with_them[1] < without[1] + 1.5, (with_them, without)


@pytest.mark.parametrize("setting", [{"NEUROGC_HUGE_ARENAS": "false"}, {"NEUROGC_POLICY": "observe"}, {"NEUROGC_SNAPSHOTS": "false"}])
def test_there_are_none_where_they_are_not_wanted(setting):
    huge("data = heap(100)\nassert smaps('AnonHugePages') == 0", **setting)


def test_a_process_that_may_not_have_them_has_none():
    huge("""
import ctypes
PR_SET_THP_DISABLE = 41
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
neurogc.uninstall()
neurogc.install(policy="threshold:700,10,10")
before = mappings()
data = heap(100)
assert smaps("AnonHugePages") == 0
""")


def test_arenas_are_given_back_after_the_agent_has_gone():
    huge("""
small = smaps("Rss")
data = heap(150)
neurogc.uninstall()
more = heap(150)
# New ones are ordinary.
assert 80 < smaps("AnonHugePages") < 160, smaps("AnonHugePages")
del data, more
assert smaps("Rss") < small + 24, (small, smaps("Rss"))
neurogc.install(policy="threshold:700,10,10")
data = heap(150)
assert smaps("AnonHugePages") > 80
""")


def test_a_forked_child_has_a_heap_of_its_own():
    huge("""
data = heap(100)
pid = os.fork()
if pid == 0:
    more = heap(100)
    assert smaps("AnonHugePages") > 80
    data[:] = [bytes(463) for _ in data]
    del data, more
    soon(lambda: smaps("AnonHugePages") < 10)
    garbage(1000)
    assert fly()[0] == "ready" and drain()[0] >= 2000
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert all(one == bytes(463) for one in data) and len(data) == 204800
del data
soon(lambda: smaps("AnonHugePages") < 10)
""")


def test_threads_may_allocate_while_another_forks():
    huge("""
stop = False
def churn():
    while not stop:
        heap(8)
base = heap(40)
threads = [threading.Thread(target=churn) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        heap(20)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
""", "-W", "ignore")


def test_set_equality_with_huge_arenas():
    full, snapshot = [
        json.loads(app("mixed_graph.py", how, "200000", "4000", "0", timeout=600, **ACTS)) for how in ("full", "snapshot")
    ]
    assert full["found"] > 50_000
    assert snapshot == full


def test_arenas_come_and_go_while_a_snapshot_is_out():
    huge("""
import random
base = heap(100)
for turn in range(6):
    garbage(20_000)
    held = [cycle(data=heap(1)) for _ in range(40)]
    agent.snapshot_launch()
    dead = [Node() for _ in range(50_000)]
    del held, dead
    gc.collect(0)
    churn = heap(60)
    assert wait()[0] == "ready"
    del churn
    freed, moved, dropped = drain()
    assert freed >= 40_000, freed
    assert not failed(), failed()
    more = heap(30)
    del more
gc.collect()
nothing_is_left()
del base
soon(lambda: smaps("AnonHugePages") < 20)
""", timeout=180)


@pytest.mark.twice
@pytest.mark.timing
def test_pages_that_a_flight_breaks_are_mended():
    huge("""
live = [[number] for number in range(1_500_000)]
whole = smaps("AnonHugePages")
assert whole > 60, whole
agent.snapshot_launch()
for at in range(0, len(live), 100):
    live[at].append(None)
broken = smaps("AnonHugePages")
wait()
drain()
assert broken < whole / 2, (broken, whole)
soon(lambda: smaps("AnonHugePages") > whole * 0.9, within=20)
assert [one[0] for one in live] == list(range(1_500_000))
""")


@pytest.mark.twice
@pytest.mark.timing
def test_what_is_shared_with_a_forked_child_is_not_mended():
    huge("""
live = [[number] for number in range(1_500_000)]
done = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(done[0], 1)
    os._exit(0)
for at in range(0, len(live), 2000):
    live[at].append(None)
broken = smaps("AnonHugePages")
agent.snapshot_launch()
wait()
drain()
time.sleep(1.5)
assert smaps("AnonHugePages") <= broken + 8, (broken, smaps("AnonHugePages"))
os.write(done[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
""")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters share one GIL before 3.12")
def test_interpreters_with_a_gil_of_their_own_share_the_pages():
    huge("""
try:
    import _interpreters as interpreters
    create = lambda: interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as interpreters
    create = lambda: interpreters.create(isolated=True)
base = heap(40)
code = '''
def heap(megabytes):
    return [bytes(463) for _ in range(megabytes * 2048)]
for _ in range(4):
    data = heap(30)
    assert all(one == bytes(463) for one in data)
    del data
'''
ids = [create() for _ in range(4)]
failures = []
def work(one):
    try:
        answer = interpreters.run_string(one, code)
        if answer is not None:
            failures.append(answer)
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(one,)) for one in ids]
for thread in threads:
    thread.start()
mine = []
for _ in range(20):
    mine = heap(20)
    assert all(one == bytes(463) for one in mine)
for thread in threads:
    thread.join()
assert not failures, failures
for one in ids:
    interpreters.destroy(one)
del base, mine
# Interpreters that have ended leave a few arenas behind, with CPython's own allocator as well.
soon(lambda: smaps("AnonHugePages") < 40)
""")


@pytest.mark.parametrize("taken_off", [False, True])
def test_a_foreign_hook_on_top(tmp_path, taken_off):
    huge(f"""
sys.path.insert(0, {extension("arena_hook", tmp_path)!r})
import arena_hook
data = heap(100)
arena_hook.put_on()
more = heap(100)
# What the agent counts on.
assert arena_hook.sizes() == (1 << 20, 1 << 20), arena_hook.sizes()
assert smaps("AnonHugePages") > 140
if {taken_off}:
    arena_hook.take_off()
garbage(1000)
assert fly()[0] == "ready" and drain()[0] >= 2000
del data, more
soon(lambda: smaps("AnonHugePages") < 10)
more = heap(100)
""")


def test_a_foreign_hook_below(tmp_path):
    # Python code that was started without a policy: the first hook to be put in place is not the agent's.
    huge(f"""
sys.path.insert(0, {extension("arena_hook", tmp_path)!r})
import arena_hook
arena_hook.put_on()
neurogc.install(policy="threshold:700,10,10")
data = heap(200)
taken = arena_hook.in_use()
# The first arenas of a program come from the allocator that was set before ours.
assert 10 <= taken <= 40, taken
assert smaps("AnonHugePages") > 120
del data
assert arena_hook.in_use() < taken
""", NEUROGC_POLICY="observe")

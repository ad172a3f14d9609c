"""The allocation sampler: it says where live memory was allocated, and the program does not notice it."""

import json
import os
import subprocess
import sys

import pytest
from observed import HOME, environment, run, stock
from sampling import MODES, SITES, TINY, compiled, sampled

pytestmark = pytest.mark.needs_agent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("native"))


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def test_sites_are_told_apart_and_near_the_truth(mode):
    # Ten sites of small, middle and large blocks in a heap of about 130 MB.
    sampled("""
def a(): return [bytes(100) for _ in range(200_000)]
def b(): return [str(i) * 10 for i in range(150_000)]
def c(): return [bytearray(3000) for _ in range(4000)]
def d(): return [{i: i} for i in range(20_000)]
def e(): return [bytes(200_000) for _ in range(100)]
def f(): return bytearray(15_000_000)
def g(): return [object() for _ in range(200_000)]
def h(): return [[None] * 40 for _ in range(30_000)]
def i(): return [bytes(40_000) for _ in range(300)]
def j(): return [bytes(700) for _ in range(15_000)]
kept = [make() for make in (a, b, c, d, e, f, g, h, i, j)]
found = by_function()
truth = {name: 0 for name in "abcdefghij"}
size = sys.getsizeof
for name, made in zip(truth, kept):
    truth[name] = size(made) + (sum(map(size, made)) if isinstance(made, list) else 0)
off = {name: round(found.get(name, found.get("<listcomp>", 0)) / truth[name] - 1, 3) for name in truth}
if sys.version_info >= (3, 12):
    assert sum(abs(value) < 0.1 for value in off.values()) >= 8, off
    assert all(abs(value) < 0.25 for value in off.values()), off
whole = sum(found.values())
near(whole, sum(truth.values()), 0.12)
assert (whole - found.get(None, 0)) / whole > 0.97, found.get(None)
""", mode=mode)


def test_lines_and_stacks_are_those_of_the_code(mode):
    out = sampled("""
def inner(n):
    return [
        bytes(n) for _ in
        range(4000)
    ]
def outer():
    return inner(900)
kept = outer()
largest = max((s for s in neurogc.memory.sites() if s["file"] == "<string>"), key=lambda s: s["bytes"])
near(largest["bytes"], 4000 * 933, 0.3)
near(largest["blocks"], 4000, 0.3)
print(json.dumps([[name for _, _, name in largest["stack"] if name != "<listcomp>"], largest["line"]]))
assert largest["domain"] in ("malloc", "raw"), largest
""", mode=mode)
    stack, line = json.loads(out)
    assert stack[:3] == ["inner", "outer", "<module>"]
    first = SITES.count("\n") + 1
    assert line == first + 3


def test_freed_memory_is_in_no_site(mode):
    sampled("""
def make(): return [bytes(300) for _ in range(50_000)], [bytes(3000) for _ in range(3000)], bytearray(9_000_000)
def made(): return sum(s["bytes"] for s in neurogc.memory.sites() if "make" in [name for _, _, name in s["stack"]])
kept = make()
near(made(), 50_000 * 333 + 3000 * 3033 + 9_000_000 + 53_000 * 8, 0.12)
kept = None
assert made() < 300_000, made()
assert sum(s["made_bytes"] for s in neurogc.memory.sites() if "make" in [name for _, _, name in s["stack"]]) > 30e6
""", mode=mode)


def test_a_grown_list_is_where_it_grew(mode):
    sampled("""
def grow():
    kept = []
    for number in range(3_000_000):
        kept.append(None)
    return kept
kept = grow()
near(by_function()["grow"], sys.getsizeof(kept), 0.2)
text = ""
def longer():
    global text
    for _ in range(200):
        text += "x" * 50_000
longer()
near(by_function()["longer"], 10_000_000, 0.25)
""", mode=mode)


def test_status_has_the_largest_lines():
    code = """
def keep(): return [bytes(400) for _ in range(40_000)]
kept = keep()
import neurogc
report = neurogc.status()["allocations"]
assert report["mode"] == %r and report["reason"] == "", report
assert 0.9 < report["attributed"] <= 1, report
top = report["top"][0]
assert "in keep" in top["site"] or "listcomp" in top["site"], top
near(top["bytes"], 40_000 * 440, 0.15)
assert report["rate_bytes_s"] > 0 and report["live_bytes"] >= top["bytes"]
""" % MODES[-1]
    sampled(code, mode="auto")


def test_off_samples_nothing_and_says_so():
    sampled("""
import neurogc
kept = [bytes(400) for _ in range(10_000)]
report = neurogc.status()["allocations"]
assert report["mode"] == "off" and report["top"] == [] and report["reason"] == "", report
try:
    neurogc.memory.sites()
except RuntimeError as error:
    assert "off" in str(error)
else:
    raise AssertionError
import os
assert "neurogc_preload" not in os.environ.get("LD_PRELOAD", "")
""", mode="off")


def test_uninstall_leaves_sampled_blocks_alone(mode):
    sampled("""
import neurogc
kept = [bytes(i % 900) for i in range(30_000)]
neurogc.uninstall()
more = [bytes(i % 900) for i in range(30_000)]
kept = None
assert all(len(x) == i % 900 and not any(x) for i, x in enumerate(more))
neurogc.install(policy="observe")
more = None
again = [bytes(i % 900) for i in range(30_000)]
assert by_function()
""", mode=mode, **TINY)


def test_reallocated_blocks_keep_their_bytes(mode):
    # A small sampled block that is grown over 512 bytes leaves the domain that it was sampled in.
    sampled("""
import random
random.seed(1)
lists, arrays = [[] for _ in range(200)], [bytearray() for _ in range(200)]
for step in range(60_000):
    which = random.randrange(200)
    lists[which].append(step)
    arrays[which] += step.to_bytes(4, "little")
    if step % 50 == 0:
        del lists[which][random.randrange(len(lists[which]) + 1):]
        del arrays[which][4 * len(lists[which]):]
for values, array in zip(lists, arrays):
    assert values == [int.from_bytes(array[at:at + 4], "little") for at in range(0, len(array), 4)]
""", mode=mode, **TINY)


def test_null_is_never_a_sampled_block(mode):
    sampled("""
import ctypes
raw = ctypes.pythonapi
for name in ("PyMem_", "PyObject_", "PyMem_Raw"):
    malloc, realloc, free = (getattr(raw, name + word) for word in ("Malloc", "Realloc", "Free"))
    realloc.restype = malloc.restype = ctypes.c_void_p
    realloc.argtypes, free.argtypes = [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_void_p]
    for size in [0, 1, 16, 400, 600, 5000, 40_000, 70_000] * 300:
        block = realloc(None, size)
        assert block
        for other in (1, 300, 513, 33_000, 0, 200):
            block = realloc(block, other)
            assert block
        free(block)
        free(None)
""", mode=mode, **TINY)


def test_threads(mode):
    sampled("""
import threading, zlib
def work(seed):
    kept = {}
    for i in range(15_000):
        kept[i % 500] = (bytes(i % 2000), [seed] * (i % 50), str(i))
        if i % 500 == 0:
            assert zlib.decompress(zlib.compress(bytes(100_000))) == bytes(100_000)
    # The last round of each key was the one from 14,500 on.
    assert all(b == bytes((14_500 + at) % 2000) and l == [seed] * (at % 50) and s == str(14_500 + at) for at, (b, l, s) in kept.items())
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert by_function("made_bytes")["work"] > 0
""", mode=mode, **TINY)


def test_a_forked_child_begins_with_empty_tables(mode):
    sampled("""
import os, neurogc
def before(): return [bytes(400) for _ in range(20_000)]
def after(): return [bytes(400) for _ in range(20_000)]
kept = before()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        others = after()
        found = {name: sum(s["bytes"] for s in neurogc.memory.sites() if name in [f for _, _, f in s["stack"]])
                 for name in ("before", "after")}
        assert found["before"] == 0, found
        near(found["after"], 20_000 * 440, 0.15)
        kept = None
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
assert sum(s["bytes"] for s in neurogc.memory.sites() if "before" in [f for _, _, f in s["stack"]]) > 7e6
""", mode=mode)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="an interpreter has a GIL of its own from 3.12 on")
def test_interpreters_with_a_gil_of_their_own(mode):
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    sampled(f"""
import {module} as interpreters, threading
code = '''
kept = {{}}
for i in range(20_000):
    kept[i % 300] = (bytes(i % 700), [i] * (i % 30), str(i))
assert all(len(b) < 700 for b, l, s in kept.values())
'''
def work():
    other = interpreters.create()
    interpreters.run_string(other, code)
    interpreters.destroy(other)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
kept = [bytes(i % 700) for i in range(40_000)]
[t.join() for t in threads]
""", mode=mode, **TINY)


def test_tracemalloc_starts_and_stops_over_it(mode):
    sampled("""
import tracemalloc
kept = [bytes(i % 900) for i in range(10_000)]
tracemalloc.start()
more = [bytes(i % 900) for i in range(10_000)]
kept = None
assert tracemalloc.get_traced_memory()[0] > 4_000_000
tracemalloc.stop()
more = None
kept = [bytes(i % 900) for i in range(10_000)]
""", mode=mode, **TINY)


@pytest.mark.parametrize("kind", ["malloc", "pymalloc", "debug", "malloc_debug", "pymalloc_debug"])
def test_every_kind_of_allocators(kind, mode):
    debug = "debug" in kind
    sampled(f"""
import neurogc
kept = [bytes(i % 900) for i in range(20_000)]
report = neurogc.status()
found = report["allocations"]
if {debug}:
    assert found["mode"] == "off" and "allocators of kind" in found["reason"], found
    assert any("allocators of kind" in text for text in report["degraded"])
else:
    assert found["mode"] == {mode!r}, found
    near(found["live_bytes"], 20_000 * 490, 0.5)
neurogc.uninstall()
kept = None
""", mode=mode, PYTHONMALLOC=kind, **TINY)


def test_a_tracemalloc_that_was_there_before_is_left_alone(mode):
    sampled("""
import neurogc, tracemalloc
found = neurogc.status()["allocations"]
assert found["mode"] == "off" and "tracemalloc" in found["reason"], found
tracemalloc.stop()
""", mode=mode, PYTHONTRACEMALLOC=1)


def test_snapshots_and_collections_work_over_it(mode):
    sampled("""
import neurogc
class Node: pass
def garbage():
    for _ in range(20_000):
        a, b = Node(), Node()
        a.other, b.other, a.data = b, a, bytes(200)
gc.disable()
garbage()
assert neurogc.collect("snapshot") > 30_000
kept = [Node() for _ in range(50_000)]
assert neurogc.collect("full") >= 0 and len(kept) == 50_000
""", mode=mode, NEUROGC_SAMPLE_KIB="1")


def test_memory_that_runs_out(mode):
    # No sampled block, and no table, may turn a MemoryError into anything else.
    sampled("""
import resource
def fill():
    kept = []
    try:
        while True:
            kept.append((bytes(700), [0] * 40, bytearray(20_000)))
    except MemoryError:
        count = len(kept)
        kept = None
        return count
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (120 << 20), resource.RLIM_INFINITY))
for _ in range(3):
    assert fill() > 2000
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
def keep(): return [bytes(700) for _ in range(20_000)]
kept = keep()
found = sum(s["bytes"] for s in neurogc.memory.sites() if "keep" in [name for _, _, name in s["stack"]])
near(found, 20_000 * 741, 0.15)
""", mode=mode, NEUROGC_SAMPLE_KIB="8")


def test_what_was_allocated_before_a_late_start_is_freed_as_ever():
    stock(f"""
import gc, sys
sys.path.insert(0, {str(HOME.parent)!r})
class Node: pass
def make(): return [[bytes(i % 900), [i] * (i % 40), {{i: str(i)}}, bytearray(i % 3000)] for i in range(20_000)]
before, strings = make(), [str(i) * (i % 9) for i in range(20_000)]
lists, arrays = [[i] for i in range(5_000)], [bytearray(b"x" * (i % 600)) for i in range(5_000)]
import neurogc
neurogc.install(policy="observe", sample_kib=0.293)
assert neurogc.status()["allocations"]["mode"] == "python", neurogc.status()["allocations"]
after = make()
for i, (each, array) in enumerate(zip(lists, arrays)):
    # Blocks of before are grown, most of them out of the allocator for small blocks, and shrunk.
    each.extend(range(i % 200))
    array += b"y" * (i % 700)
    if i % 3 == 0:
        del each[1:], array[i % 600:]
for i, (each, array) in enumerate(zip(lists, arrays)):
    grown = i % 3 != 0
    assert each == [i, *(range(i % 200) if grown else ())]
    assert array == b"x" * (i % 600) + b"y" * (i % 700 if grown else 0)
for made in (before, after):
    for i, (b, l, d, a) in enumerate(made):
        assert b == bytes(i % 900) and l == [i] * (i % 40) and d == {{i: str(i)}} and a == bytearray(i % 3000)
known = sum(site["bytes"] for site in neurogc.memory.sites() if "make" in [name for _, _, name in site["stack"]])
truth = sum(sys.getsizeof(each) + sum(map(sys.getsizeof, each)) for each in after)
assert abs(known / truth - 1) < 0.3, (known, truth)
before = strings = lists = arrays = None
gc.collect()
again = make()
neurogc.uninstall()
after = again = None
gc.collect()
""", timeout=120)


def test_a_hook_of_another_tool_is_left_alone(built):
    for domain in (0, 1, 2):
        stock(f"""
import ctypes, sys
sys.path.insert(0, {str(HOME.parent)!r})
traps, api = ctypes.CDLL({str(built["traps"])!r}), ctypes.pythonapi
address = lambda function: ctypes.cast(function, ctypes.c_void_p)
traps.traps_foreign_hook({domain}, address(api.PyMem_GetAllocator), address(api.PyMem_SetAllocator))
import neurogc
neurogc.install(policy="observe")
found = neurogc.status()
assert found["allocations"]["mode"] == "off", found["allocations"]
assert "another tool stands over CPython's allocators" in found["allocations"]["reason"], found["allocations"]
assert any("another tool" in text for text in found["degraded"]), found["degraded"]
before = traps.traps_foreign_calls()
kept = [bytes(i % 900) for i in range(10_000)]
for name in ("PyMem_Raw", "PyMem_", "PyObject_"):
    malloc, free = getattr(api, name + "Malloc"), getattr(api, name + "Free")
    malloc.restype = ctypes.c_void_p
    free(ctypes.c_void_p(malloc(100)))
assert traps.traps_foreign_calls() > before
try:
    neurogc.memory.sites()
except RuntimeError as error:
    assert "another tool" in str(error) or "off" in str(error), error
else:
    raise AssertionError
neurogc.uninstall()
""")


def test_native_memory_without_the_library_says_what_is_missing():
    stock(f"""
import sys
sys.path.insert(0, {str(HOME.parent)!r})
import neurogc
neurogc.install(policy="observe", allocations="native")
kept = [bytes(400) for _ in range(20_000)]
found = neurogc.status()
assert found["allocations"]["mode"] == "python", found["allocations"]
assert "without libneurogc_preload.so" in found["allocations"]["reason"], found["allocations"]
assert any("without libneurogc_preload.so" in text for text in found["degraded"]), found["degraded"]
assert sum(site["bytes"] for site in neurogc.memory.sites()) > 5_000_000
""")


@pytest.mark.long(12)
def test_growth_since_a_moment(mode):
    # The agent keeps a moment every ten seconds.
    sampled("""
import time
def early(): return [bytes(400) for _ in range(30_000)]
def late(): return [bytes(400) for _ in range(60_000)]
kept = early()
def of(name, since):
    found = [s for s in neurogc.memory.sites(since=since) if name in [f for _, _, f in s["stack"]]]
    assert found and all("growth_bytes" in s for s in found)
    return sum(s["growth_bytes"] for s in found), sum(s["bytes"] for s in found)
assert all("growth_bytes" not in s for s in neurogc.memory.sites())
# A moment in which the first list was there.
deadline = time.monotonic() + 40
while abs(of("early", 1)[0]) > 1_000_000:
    assert time.monotonic() < deadline
    time.sleep(0.1)
more = late()
near(of("late", 1)[0], 60_000 * 441, 0.15)
growth, live = of("early", 1)
near(live, 30_000 * 441, 0.15)
assert abs(growth) < 1_000_000, growth
assert neurogc.memory.sites(since=1)[0]["bytes"] >= neurogc.memory.sites(since=1)[1]["bytes"]
""", mode=mode)


def test_a_core_that_others_keep_busy(mode):
    sampled("""
import os, subprocess
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"], env={}) for _ in range(2)]
try:
    def keep(): return [bytes(400) for _ in range(60_000)]
    kept = keep()
    found = sum(s["bytes"] for s in neurogc.memory.sites() if "keep" in [name for _, _, name in s["stack"]])
    near(found, 60_000 * 441, 0.15)
    assert neurogc.status()["allocations"]["live_bytes"] >= found * 0.9
finally:
    [one.kill() for one in busy]
    [one.wait() for one in busy]
""", mode=mode)


def test_blocks_out_of_free_lists_are_counted_once_if_not_where_they_are_kept():
    # A known limit: CPython hands out blocks of some types again without asking an allocator, so a tuple that is kept may be
    # booked where another one was made and dropped before. The sum is right.
    sampled("""
def drop(n):
    return len((n, n, n, n))
def keep(n):
    return (n, n, n, n)
def work():
    kept = []
    for n in range(200_000):
        drop(n)
        kept.append(keep(n))
    return kept
kept = work()
found = by_function()
near(found.get("keep", 0) + found.get("drop", 0), 200_000 * sys.getsizeof(kept[0]), 0.1)
""", mode="python")


# Sampling native memory uses all that sampling Python's does, and more.
@pytest.mark.parametrize("mode", [pytest.param("python", marks=pytest.mark.twice), "native"])
@pytest.mark.parametrize("name", ["test_list", "test_dict", "test_array", "test_generators",
                                  *(pytest.param(name, marks=pytest.mark.twice) for name in ("test_bytes", "test_json"))])
def test_cpythons_own_tests_with_a_tiny_interval(name, mode):
    probe = subprocess.run([sys.executable, "-c", f"import test.{name}"], capture_output=True, env=environment())
    if probe.returncode != 0:
        pytest.skip("this interpreter has no test suite")
    words = [sys.executable, "-m", "unittest", "-q", f"test.{name}"]
    done = run(*words, timeout=300, NEUROGC_ALLOCATIONS=mode, NEUROGC_POLICY="observe", **TINY)
    if done.returncode != 0:
        plain = subprocess.run(words, capture_output=True, text=True, env=environment())
        assert done.returncode == plain.returncode, done.stderr[-3000:]


@pytest.mark.skipif(not os.environ.get("NEUROGC_TEST_SEEDS"), reason="a long measurement; NEUROGC_TEST_SEEDS=20")
def test_accuracy_over_many_seeds():
    # Ten sites of more than 1 % each, in a heap of 260 MB: the smallest is one of 4 MB.
    right = total = 0
    for _ in range(int(os.environ["NEUROGC_TEST_SEEDS"])):
        out = sampled("""
import array, ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
def a(): return [bytes(100) for _ in range(200_000)]
def b(): return [str(i) * 10 for i in range(150_000)]
def c(): return [bytearray(3000) for _ in range(8000)]
def d(): return [malloc(5000) for _ in range(4000)]
def e(): return [bytes(200_000) for _ in range(250)]
def f(): return [array.array("d", bytes(4096)) for _ in range(2000)]
def g(): return [object() for _ in range(220_000)]
def h(): return [[None] * 40 for _ in range(30_000)]
def i(): return [bytes(40_000) for _ in range(1000)]
def j(): return [bytes(700) for _ in range(50_000)]
kept = {f.__name__: f() for f in (a, b, c, d, e, f, g, h, i, j)}
size, sites = sys.getsizeof, neurogc.memory.sites()
for name, made in kept.items():
    truth = size(made) + (4000 * 5000 + sum(map(size, made)) if name == "d" else sum(map(size, made)))
    found = sum(s["bytes"] for s in sites if name in [f for _, _, f in s["stack"]])
    print(found / truth - 1)
known = sum(s["bytes"] for s in sites if s["function"])
assert known / sum(s["bytes"] for s in sites) > 0.97
""", mode=MODES[-1])
        errors = [abs(float(line)) for line in out.split()]
        print(*(f"{error:.3f}" for error in errors))
        right, total = right + sum(error < 0.1 for error in errors), total + len(errors)
    assert right / total >= 0.95, (right, total)

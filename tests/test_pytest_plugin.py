"""`pytest --neurogc`: what its marks measure, and what a failure says. pytest runs in a process of its own."""

import os
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.needs_agent

PYTHON = Path(__file__).resolve().parent.parent / "python"


@pytest.fixture
def run(pytester, monkeypatch):
    """Writes a test file and runs it; options come after it."""
    for name in list(os.environ):
        # Where continuous integration runs, pytest's summary repeats whole messages.
        if name.startswith(("NEUROGC_", "PYTEST_XDIST")) or name in ("CI", "BUILD_NUMBER"):
            if name == "NEUROGC_BIN":
                monkeypatch.setenv("PATH", f"{Path(os.environ[name]).parent}{os.pathsep}{os.environ['PATH']}")
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))

    def run(text, *options, flag="--neurogc", **files):
        pytester.makepyfile(test_it="import pytest\n" + text, **files)
        # A build of the package in this folder leaves the plugin's entry point behind, and no plugin may come twice.
        plugins = ["-p", "no:neurogc", "-p", "neurogc_pytest", "-p", "no:cacheprovider"]
        return pytester.runpytest_subprocess(*plugins, flag, *options)

    return run


def said(result):
    return "\n".join(result.outlines)


def test_a_test_below_its_limit_passes_and_one_above_names_the_line(run):
    result = run("""
@pytest.mark.limit_memory("24 MB")
def test_below():
    bytearray(20 << 20)

@pytest.mark.limit_memory("24 MB")
def test_above():
    blocks = [bytearray(1 << 20) for _ in range(30)]
    return None
""")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the test took 30.0 MB of memory at a time; its limit is 24.0 MB", "*30.0 MB *test_it.py:9 in *"])
    result.stdout.fnmatch_lines(["*tests that took the most memory*", "*30.0 MB  test_it.py::test_above", "*20.0 MB  test_it.py::test_below"])


def test_the_peak_is_exact(run):
    """Every block is in it, whatever its size, and the stacks are those of the moment of the peak."""
    result = run("""
import json
from neurogc import _native

def test_it():
    agent = _native.agent
    agent.count_begin()
    kept = [bytes(100) for _ in range(10_000)]
    large = bytearray(5_000_000)
    del large, kept
    after = bytearray(3_000_000)
    agent.count_end()
    figures = json.loads(agent.count_figures(50))
    # An object of bytes has 33 bytes more, and the list 8 bytes for each of them and some in store.
    expected = 10_000 * 133 + 5_000_000
    assert expected < figures["peak"] < expected + 200_000, figures["peak"]
    at_peak = {}
    for site in figures["sites"]:
        line = site["stack"][0][1]
        at_peak[line] = at_peak.get(line, 0) + site["at_peak"]
    assert at_peak[10] == pytest.approx(5_000_000, rel=0.001) and at_peak.get(12, 0) == 0
    assert 3_000_000 <= figures["live"] < 3_100_000
""")
    result.assert_outcomes(passed=1)


@pytest.mark.twice
def test_blocks_from_before_do_not_count(run):
    result = run("""
@pytest.fixture
def made_before():
    return [bytearray(1 << 20) for _ in range(40)]

@pytest.mark.limit_memory("10 MB")
def test_it(made_before):
    made_before.clear()
    bytearray(8 << 20)
""")
    result.assert_outcomes(passed=1)


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the library is for x86-64")
@pytest.mark.parametrize("native", ["auto", pytest.param("off", marks=pytest.mark.twice)])
def test_native_allocations_count_where_the_library_is_preloaded(run, native):
    result = run(
        """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.realloc.restype = ctypes.c_void_p
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

@pytest.mark.limit_memory("24 MB")
def test_it():
    block = libc.realloc(libc.malloc(1 << 20), 30 << 20)
    libc.free(block)

def test_children_are_left_alone():
    code = "import os; print(os.environ.get('LD_PRELOAD', 'none'))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "none\\n"
""",
        f"--neurogc-native={native}",
    )
    if native == "auto":
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*counting Python and native allocations", "the test took 30.0 MB*", "*30.0 MB *test_it.py:12 in test_it*"])
    else:
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["*native code is not counted*"])


@pytest.mark.twice
def test_without_the_option_nothing_is_loaded_or_checked(run):
    result = run(
        """
import sys

@pytest.mark.limit_memory("1 B")
@pytest.mark.limit_leaks("1 B")
@pytest.mark.limit_pauses("1 ns")
def test_it():
    assert "neurogc" not in sys.modules
""",
        "--strict-markers",
        flag="--color=no",
    )
    result.assert_outcomes(passed=1)
    assert "neurogc" not in said(result)


LEAK = """
KEPT = []

@pytest.fixture
def box():
    return []

@pytest.mark.limit_leaks("100 KB"{more})
def test_it(box):
    box.append(bytearray(50_000))
    {body}
"""


def test_a_leak_names_its_line_and_its_holder(run):
    result = run(LEAK.format(more="", body="KEPT.append(bytearray(10_000))"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "memory grows by 19?.* KB over 20 runs, 9.* KB each time; the limit is 100.0 KB",
        "what grew was allocated at:",
        "*19?.* KB *test_it.py:12 in test_it*",
    ])
    if os.environ.get("PATH", "").find("fast") >= 0:
        result.stdout.fnmatch_lines(["and is held by:", "*test_it.KEPT* 20 more objects, *"])


@pytest.mark.twice
def test_what_fixtures_hold_caches_that_are_made_once_and_cycles_are_no_leaks(run):
    result = run("""
CACHE = {}
RUNS = []

@pytest.fixture
def box():
    return []

@pytest.mark.limit_leaks("1 KB")
def test_it(box):
    box.append(bytearray(500_000))
    box.append(box)
    RUNS.append(None)
    if len(RUNS) == 6:
        CACHE["made late"] = bytearray(1_000_000)

def test_ran_often_enough():
    assert len(RUNS) == 23
""")
    result.assert_outcomes(passed=2)


@pytest.mark.twice
def test_fixtures_of_each_scope_are_set_up_as_often_as_they_should_be(run):
    result = run("""
EVENTS = []

@pytest.fixture(scope="module")
def module():
    EVENTS.append("module")
    yield
    EVENTS.append("module ends")

@pytest.fixture
def function(module):
    EVENTS.append("function")
    yield
    EVENTS.append("function ends")

@pytest.mark.limit_leaks("100 KB", warmup=1, runs=4)
def test_it(function, tmp_path):
    assert EVENTS[-1] == "function"
""", test_later="""
def test_it():
    from test_it import EVENTS
    assert EVENTS == ["module", *["function", "function ends"] * 5, "module ends"]
""")
    result.assert_outcomes(passed=2)


@pytest.mark.twice
def test_a_run_that_fails_is_reported_with_its_number(run):
    result = run("""
RUNS = []

@pytest.mark.limit_leaks("100 KB", warmup=1, runs=5)
def test_it():
    RUNS.append(None)
    assert len(RUNS) < 4, "the fourth"

@pytest.mark.limit_leaks("100 KB")
def test_skips():
    pytest.skip("not here")

@pytest.mark.xfail(reason="known")
@pytest.mark.limit_leaks("100 KB", warmup=0, runs=4)
def test_expected():
    RUNS.append(bytearray(100_000))
""")
    result.assert_outcomes(failed=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*the fourth*", "*this is run 4 of 6*"])


@pytest.mark.twice
def test_a_teardown_that_fails_after_the_last_run_is_an_error(run):
    result = run("""
@pytest.fixture(scope="module")
def module():
    yield
    raise ValueError("on the way out")

@pytest.mark.limit_leaks("100 KB", warmup=0, runs=4)
def test_it(module):
    pass
""")
    result.assert_outcomes(passed=1, errors=1)


def test_a_long_collection_fails_a_test_and_says_where_it_began(run):
    result = run("""
import gc

@pytest.mark.limit_pauses("1 us")
def test_it():
    kept = [[] for _ in range(50_000)]
    gc.collect()

@pytest.mark.limit_pauses("10 s")
def test_short():
    gc.collect()
    assert len(gc.callbacks) <= 2

def test_is_watched_no_more():
    assert len(gc.callbacks) <= 1
""")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["a garbage collection took * ms; the limit is 1 us", "*begun at *test_it.py:*"])


@pytest.mark.parametrize(
    "mark, why",
    [
        ('limit_memory("24 lemons")', 'a size is a number and B, KB, MB or GB, such as "24 MB"'),
        ("limit_memory()", "it needs a limit"),
        ('limit_memory("1 MB", "2 MB")', "it takes one limit"),
        ('limit_leaks("1 MB", warmups=2)', "it knows limit, warmup, runs; warmups is none of them, or twice"),
        ('limit_leaks("1 MB", runs=2)', "runs must be a whole number of at least 4"),
        ('limit_pauses("5 MB")', 'a duration is a number and us, ms or s, such as "5 ms"'),
        ("limit_pauses(5)", "a duration is a number"),
    ],
)
@pytest.mark.once
def test_a_bad_mark_is_an_error_of_its_test_only(run, mark, why):
    result = run(f"""
@pytest.mark.{mark}
def test_bad():
    pass

def test_good():
    pass
""")
    result.assert_outcomes(passed=1, errors=1)
    assert why in said(result)


@pytest.mark.twice
def test_it_works_with_xdist(run):
    pytest.importorskip("xdist")
    result = run("""
import os, subprocess, sys
KEPT = []

@pytest.mark.limit_memory("24 MB")
def test_above():
    bytearray(30 << 20)

@pytest.mark.limit_leaks("100 KB", warmup=1, runs=6)
def test_leaks():
    KEPT.append(bytearray(100_000))

def test_unmarked():
    list(map(bytes, [1000] * 20_000))

def test_children_are_left_alone():
    code = "import os; print(os.environ.get('LD_PRELOAD', 'none'))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "none\\n"
""", "-n", "2")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*30.0 MB  test_it.py::test_above", "~*MB  test_it.py::test_unmarked"])
    result.stdout.fnmatch_lines_random(["the test took 30.0 MB*", "memory grows by *", "*limits are checked in the workers"])


@pytest.mark.twice
def test_it_works_with_async_tests_and_unittest(run):
    pytest.importorskip("anyio")
    result = run("""
import unittest
import anyio
KEPT = []

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
@pytest.mark.limit_memory("24 MB")
async def test_above():
    await anyio.sleep(0)
    block = bytearray(30 << 20)
    await anyio.sleep(0)

@pytest.mark.anyio
@pytest.mark.limit_leaks("100 KB", warmup=2, runs=6)
async def test_leaks():
    await anyio.sleep(0)
    KEPT.append(bytearray(100_000))

@pytest.mark.anyio
@pytest.mark.limit_leaks("20 KB", warmup=2, runs=6)
async def test_does_not_leak():
    await anyio.sleep(0)
    bytearray(100_000)

class Case(unittest.TestCase):
    @pytest.mark.limit_memory("24 MB")
    def test_above(self):
        bytearray(30 << 20)
""")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines_random(["memory grows by *", "*test_it.py:22 in test_leaks*"])


def test_threads_and_forks_within_a_counted_test(run):
    result = run("""
import os, threading

def work():
    for _ in range(200):
        [bytes(50) for _ in range(100)]

@pytest.mark.limit_memory("24 MB")
def test_it():
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            [bytes(50) for _ in range(1000)]
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    bytearray(30 << 20)
""", "-W", "ignore")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the test took 30.* MB of memory at a time*"])


@pytest.mark.twice
def test_tracemalloc_within_and_around_a_counted_test(run):
    result = run("""
import tracemalloc

@pytest.mark.limit_memory("24 MB")
def test_starts():
    tracemalloc.start()
    bytearray(30 << 20)

@pytest.mark.limit_memory("24 MB")
def test_runs():
    bytearray(30 << 20)
    tracemalloc.stop()

@pytest.mark.limit_memory("24 MB")
def test_after():
    bytearray(30 << 20)
""")
    result.assert_outcomes(failed=3)
    assert said(result).count("its limit is 24.0 MB") == 3


"""Memory line by line: `@neurogc.profile_memory`, `memory.growth()`, `%%memory` and `neurogc run --lines`."""

import subprocess
import sys
from pathlib import Path

import pytest

import observed

pytestmark = pytest.mark.needs_agent

PYTHON = Path(__file__).resolve().parent.parent / "python"


def run(tmp_path, text, *options):
    """Runs a program in an interpreter of its own, which finds the package."""
    program = tmp_path / "program.py"
    program.write_text(text)
    words = [sys.executable, *options, program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=observed.environment(PYTHONPATH=PYTHON))
    assert done.returncode == 0, done.stderr
    return done


CHECKED = """
import asyncio
import neurogc

kept = []

def near(found, expected, most=2000):
    assert abs(found - expected) <= most, f"{found} is not {expected}"

def by_text(function):
    lines = open(__file__).read().splitlines()
    return {lines[number - 1].strip(): figures for number, figures in function.memory.lines.items() if figures.times}
"""


def test_each_line_has_its_change_its_peak_and_how_often_it_ran(tmp_path):
    done = run(tmp_path, CHECKED + """
def helper():
    passing = bytearray(2_000_000)
    kept.append(bytearray(100_000))

@neurogc.profile_memory
def work(n):
    rows = []
    for i in range(n):
        rows.append(bytearray(10_000))
    large = bytearray(5_000_000)
    del large
    helper()
    return len(rows)

assert work(100) == 100 and work(100) == 100
lines = by_text(work)
near(lines["rows.append(bytearray(10_000))"].change, 2 * 1_008_000, 40_000)
assert lines["rows.append(bytearray(10_000))"].times == 200
near(lines["large = bytearray(5_000_000)"].change, 10_000_000)
near(lines["large = bytearray(5_000_000)"].peak, 6_008_000, 20_000)
near(lines["del large"].change, -10_000_000)
near(lines["helper()"].change, 200_000)
near(lines["helper()"].peak, 3_108_000, 20_000)
assert work.memory.calls == 2
near(work.memory.peak, 6_008_000, 20_000)
""")
    assert done.stdout == ""
    table = done.stderr.splitlines()
    assert "program.py:18 work(): 2 calls, peak 5." in table[1] and "MB" in table[1]
    row = next(line for line in table if "large = bytearray" in line)
    assert row.split()[1:3] == ["+9.5", "MB"]


def test_generators_coroutines_and_exceptions(tmp_path):
    run(tmp_path, CHECKED + """
@neurogc.profile_memory
def numbers():
    first = bytearray(1_000_000)
    yield 1
    second = bytearray(500_000)
    yield 2

for number in numbers():
    kept.append(bytearray(3_000_000))
lines = by_text(numbers)
near(lines["first = bytearray(1_000_000)"].change, 1_000_000)
near(lines["second = bytearray(500_000)"].change, 500_000)
# What the loop keeps meanwhile is not the generator's.
assert lines["yield 1"].change < 10_000 and lines["yield 1"].peak < 1_100_000 + 3_000_000

@neurogc.profile_memory
async def wait():
    before = bytearray(300_000)
    await asyncio.sleep(0.01)
    after = bytearray(200_000)
    return len(before) + len(after)

assert asyncio.run(wait()) == 500_000
near(by_text(wait)["after = bytearray(200_000)"].change, 200_000)

@neurogc.profile_memory
def fails(depth):
    block = bytearray(100_000)
    if depth == 0:
        raise ValueError("at the bottom")
    fails(depth - 1)

for _ in range(2):
    try:
        fails(3)
    except ValueError as error:
        assert str(error) == "at the bottom"
near(by_text(fails)["block = bytearray(100_000)"].change, 800_000)
assert fails.memory.calls == 8
from neurogc import _lines
assert _lines._profiler.book.running() == 0 and _lines._profiler.open == 0
""")


def test_where_it_cannot_count_the_program_runs_on(tmp_path):
    done = run(tmp_path, """
import sys, tracemalloc
tracemalloc.start()
import neurogc

@neurogc.profile_memory
def work():
    return 5

assert work() == 5 and work() == 5
""")
    assert done.stderr.count("profile_memory does not count") == 1


def test_growth_is_told_by_line_and_type(tmp_path):
    done = run(tmp_path, CHECKED + """
class Session:
    __slots__ = ("number",)

with neurogc.memory.growth() as growth:
    bytearray(5_000_000)
    kept = [Session() for _ in range(10_000)]
assert 480_000 <= growth.live < 700_000 and growth.peak > 5_000_000
assert growth.lines[0][3] == 19 and growth.lines[0][2] == __file__
if growth.types:
    count, taken, name = growth.types[0]
    assert (count, name) == (10_000, "__main__.Session") and taken >= 400_000
print(growth)
""")
    assert "program.py:19" in done.stdout and "10,000 __main__.Session" in done.stdout


def test_a_cell_of_a_notebook_is_counted(tmp_path):
    done = run(tmp_path, """
import neurogc

class Shell:
    def register_magic_function(self, function, magic_kind, magic_name):
        assert (magic_kind, magic_name) == ("cell", "memory")
        self.memory = function

    def run_cell(self, cell):
        exec(compile(cell, "cell", "exec"), {})

shell = Shell()
neurogc.load_ipython_extension(shell)
shell.memory("", "bytearray(3 << 20)\\n")
""")
    assert done.stdout.startswith("peak 3.0 MB, ") and "cell:1 in <module>" in done.stdout


def test_run_lines_prints_a_table_at_the_end_of_the_program(tmp_path):
    if observed.binary() is None:
        pytest.skip("the command is not built")
    program = tmp_path / "program.py"
    program.write_text("import subprocess, sys\nkept = [bytes(1000) for _ in range(20_000)]\n"
                       "subprocess.run([sys.executable, '-c', 'pass'])\nprint('done')\n")
    words = [observed.binary(), "run", "--lines", "--", sys.executable, program]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, env=observed.environment())
    assert done.stdout == "done\n", done.stderr
    assert done.stderr.count("memory by line") == 1
    assert "program.py:2 in" in done.stderr and "kept = [bytes(1000)" in done.stderr

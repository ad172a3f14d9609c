"""The programs of bench/leaks run, say what the right verdict is, and are judged by it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

LEAKS = Path(__file__).resolve().parent.parent / "bench" / "leaks"
sys.path.insert(0, str(LEAKS))

import run as library  # noqa: E402

sys.path.remove(str(LEAKS))
pytestmark = pytest.mark.twice

PROGRAMS = {path.stem: library.Program.read(path) for path in LEAKS.glob("*_*.py") if path.stem.startswith(("leak_", "healthy_"))}


def test_each_program_says_its_verdict():
    leaks = [name for name, program in PROGRAMS.items() if not program.is_healthy]
    assert len(leaks) >= 25 and len(PROGRAMS) - len(leaks) >= 15
    for name, program in PROGRAMS.items():
        assert name.startswith("healthy_") == program.is_healthy == (not program.lines), name


def test_each_program_runs():
    def starts(program):
        return subprocess.run([sys.executable, program.path, "0.3"], capture_output=True, text=True, timeout=60)

    with ThreadPoolExecutor(4) as pool:
        for name, done in zip(PROGRAMS, pool.map(starts, PROGRAMS.values())):
            assert done.returncode == 0 and not done.stderr, f"{name}: {done.stderr}"


def finding(kind="unbounded_container", holder="__main__.events", line=None, confidence=0.95):
    line = PROGRAMS["leak_global_list"].lines[0] if line is None else line
    return {"kind": kind, "holder": holder, "site": f"leak_global_list.py:{line} in <module>", "confidence": confidence}


@pytest.mark.parametrize(
    "findings, right",
    [
        ([finding()], True),
        ([finding(holder="__main__.events[…]")], True),
        ([finding(kind="native_growth"), finding()], True),
        ([], False),
        ([finding(kind="unbounded_cache")], False),
        ([finding(holder="__main__.others")], False),
        ([finding(holder="__main__.events_of_others")], False),
        ([finding(line=1)], False),
        ([finding(confidence=0.3)], False),
        ([{**finding(), "site": ""}], False),
    ],
)
def test_a_verdict_is_right_with_kind_holder_and_line(findings, right):
    assert library.judge(PROGRAMS["leak_global_list"], findings)[0] is right


def test_an_alarm_in_a_healthy_program_is_a_false_one():
    healthy = PROGRAMS["healthy_warm_up"]
    assert library.judge(healthy, [finding(kind="plateau"), finding(confidence=0.4)])[0]
    assert not library.judge(healthy, [finding()])[0]

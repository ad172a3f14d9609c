"""The Python suite on one interpreter: side by side what may be, then what judges time; what fails is tried once more."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from commands import streamed
from interpreters import Interpreter
from outcomes import Case, Outcome, in_short

PHASE_LIMIT_S = 480
SIDE_BY_SIDE = (os.cpu_count() or 1) + 2
"""Many of the tests wait for something more often than for a processor, and the one that waits longest takes a worker of its own."""

AGAIN_AT_MOST = 10
"""Where more tests fail, it is not for a bad moment."""


class Suite:
    """The suite on one interpreter, with what pytest has to be told there."""

    def __init__(self, interpreter: Interpreter, python: Path, target: Path, *, without: list[str]) -> None:
        self.outcome = Outcome(interpreter.title)
        self.python = python
        self.marks = "".join(f" and not {mark}" for mark in without)
        self.results = target / "test-results" / f"{interpreter.tag}-{interpreter.version}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.env |= {"NEUROGC_BIN": str(target / "fast" / "neurogc"), "PYTHONUNBUFFERED": "1"}
        self.env["PATH"] = f"{python.parent}{os.pathsep}{self.env['PATH']}"

    def whole(self) -> Outcome:
        """All of the suite."""
        side_by_side = ["-n", str(SIDE_BY_SIDE), "--dist", "worksteal"]
        beside = self.pytest("side-by-side", ["tests", *side_by_side, "-m", f"not timing{self.marks}"])
        self.outcome.add(self.again(beside))
        self.outcome.add(self.again(self.pytest("alone", ["tests", "-m", f"timing{self.marks}"])))
        return self.outcome

    def stand_in(self) -> Outcome:
        """What must work where there is no extension for the interpreter."""
        self.env["NEUROGC_ALLOW_FALLBACK"] = "1"
        self.outcome.add(self.pytest("stand-in", ["tests/test_fallback.py"]))
        return self.outcome

    def again(self, cases: list[Case]) -> list[Case]:
        """Runs tests that failed once more, by themselves: one that passes then is unsteady, and has passed."""
        failed = {case.name: case for case in cases if case.verdict == "failed"}
        if 0 < len(failed) <= AGAIN_AT_MOST:
            print(f"\ntest: once more, by themselves: {len(failed)}", flush=True)
            for case in self.pytest("again", list(failed)):
                if case.verdict == "passed" and case.name in failed:
                    failed[case.name].verdict = "unsteady"
        return cases

    def pytest(self, phase: str, words: list[str]) -> list[Case]:
        """Runs pytest and reads what it wrote down."""
        results = self.results.with_name(f"{self.results.name}-{phase}.xml")
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        command = [str(self.python), "-m", "pytest", *words, "-vv", "-ra", "--tb=short", f"--junitxml={results}"]
        code, text = streamed(command, self.env, limit=PHASE_LIMIT_S)
        cases = read(results) if results.exists() else []
        if code == 5:
            self.outcome.fail(f"{phase}: no tests were found")
        elif code != 0 and not any(case.verdict == "failed" for case in cases):
            last = text.rstrip().rpartition("\n")[2]
            self.outcome.fail(f"{phase}: pytest ended with {code} (signal or time limit), its last word: {last}")
        return cases


def read(results: Path) -> list[Case]:
    """The tests in a file of results, by the names that pytest takes."""
    cases: dict[str, Case] = {}
    for element in ElementTree.parse(results).getroot().iter("testcase"):
        name = f"{element.get('classname', '').replace('.', '/')}.py::{element.get('name')}"
        # One whose fixture fails after it is there twice.
        case = cases.setdefault(name, Case(name))
        case.seconds += float(element.get("time", 0))
        for part in element:
            if part.tag in ("failure", "error"):
                case.verdict, case.reason = "failed", in_short(part.get("message") or part.text or "")
            elif part.tag == "skipped" and case.verdict == "passed":
                case.verdict = "skipped"
    return list(cases.values())

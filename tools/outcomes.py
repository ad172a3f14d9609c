"""What came out of each part of `make test`, and the closing report, whose end is all that some logs keep."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SLOWEST = 10
WIDEST = 300


@dataclass
class Case:
    """One test as it ended."""

    name: str
    seconds: float = 0.0
    verdict: str = "passed"
    reason: str = ""


@dataclass
class Outcome:
    """What came out of one part."""

    title: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    cases: list[Case] = field(default_factory=list)
    """Those of its tests that are known by name; a part may count more than it can name."""

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"  {self.title:<28} {counts:<36} {self.seconds:6.1f} s  {self.note}".rstrip()

    def add(self, cases: list[Case]) -> None:
        """Counts tests and keeps their names. An unsteady one has passed."""
        self.cases += cases
        for case in cases:
            kind = "passed" if case.verdict == "unsteady" else case.verdict
            setattr(self, kind, getattr(self, kind) + 1)

    def fail(self, why: str) -> None:
        """One failure that is no test's own."""
        self.failed += 1
        self.note = f"{self.note}; {why}".removeprefix("; ")

    def ended(self, verdict: str) -> list[str]:
        """A line for each test that ended so; where failures have no names, the part itself is named."""
        named = [case for case in self.cases if case.verdict == verdict]
        lines = [f"{self.title}: {case.name}" + (f": {case.reason}" if case.reason else "") for case in named]
        if verdict == "failed" and self.failed > len(named):
            lines.append(f"{self.title}: {self.note or 'see above'}")
        return lines


def report(outcomes: list[Outcome], missing: list[str]) -> int:
    """The closing lines; the exit code says whether anything failed."""
    print("\ntest: what ran")
    for outcome in outcomes:
        print(outcome)
    if missing:
        print(f"test: supported versions of CPython not found on this machine: {', '.join(missing)}")
        print("test: name more with NEUROGC_TEST_PYTHONS=/path/to/python3.14:/path/to/python3.15")
    block("slowest, all interpreters together", slowest(outcomes))
    block("unsteady: failed once and passed when run again", [it for one in outcomes for it in one.ended("unsteady")])
    block("FAILED", [line for outcome in outcomes for line in outcome.ended("failed")])
    failed = sum(it.failed for it in outcomes)
    passed = sum(it.passed for it in outcomes)
    skipped = sum(it.skipped for it in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def block(title: str, lines: list[str]) -> None:
    """Lines under a title; nothing where there are none."""
    if lines:
        print(f"test: {title}")
        for line in lines:
            print(f"  {line}")


def slowest(outcomes: list[Outcome]) -> list[str]:
    """The tests that take most of the time."""
    times: dict[str, list[float]] = {}
    for case in (case for outcome in outcomes for case in outcome.cases if case.seconds):
        times.setdefault(case.name, []).append(case.seconds)
    longest = sorted(times.items(), key=lambda item: -sum(item[1]))[:SLOWEST]
    return [f"{sum(spent):6.1f} s in {len(spent)}  {name}" for name, spent in longest]


def in_short(reason: str) -> str:
    """A reason in one line: how it begins, and the last word of a program that ended with an error."""
    lines = [line.strip()[:WIDEST] for line in reason.splitlines() if line.strip()]
    errors = [line for line in lines[1:] if re.match(r"[\w.]+(?:Error|Exception|Warning|Exit)\b", line)]
    return " … ".join(lines[:1] + errors[-1:])

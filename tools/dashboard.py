"""The dashboard: whether its committed bundle is what its sources give, and its pages in a real browser before a real hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from commands import streamed
from outcomes import Case, Outcome

LIMIT_S = 300
CANNOT = 77
"""The exit code of a check that lacks something; its last line says what."""

VERDICTS = {"ok": "passed", "FAIL": "failed", "skip": "skipped"}
CASE = r"^(ok|FAIL|skip) +(\w+: .+?)(?: \(.*\))?(?: (\d+\.\d) s)?$"


def tests(binary: Path, python: str) -> Outcome:
    """Everything about the dashboard."""
    outcome = Outcome("the dashboard")
    code, text = streamed(["dashboard/check"], dict(os.environ), LIMIT_S)
    verdict = {0: "passed", CANNOT: "skipped"}.get(code, "failed")
    outcome.add([Case("dashboard/check", verdict=verdict)])
    if verdict != "skipped":
        code, text = browser(outcome, binary, python)
    if code == CANNOT:
        outcome.note = text.rstrip().rpartition("\n")[2]
    return outcome


def browser(outcome: Outcome, binary: Path, python: str) -> tuple[int, str]:
    """The pages in a browser. What fails is tried once more: if it passes then it is unsteady, and has passed."""
    command = ["tests/browser/run", "--hub", str(binary), "--python", python]
    code, text = streamed(command, dict(os.environ), LIMIT_S)
    cases = read(text)
    for case in (case for case in cases if case.verdict == "failed"):
        _, again = streamed([*command, "--only", case.name], dict(os.environ), LIMIT_S)
        if any(other.name == case.name and other.verdict == "passed" for other in read(again)):
            case.verdict = "unsteady"
    outcome.add(cases)
    if code == CANNOT:
        outcome.add([Case("tests/browser/run", verdict="skipped")])
    elif code != 0 and all(case.verdict == "passed" for case in cases):
        outcome.fail(f"tests/browser/run ended with {code}")
    return code, text


def read(text: str) -> list[Case]:
    """The cases of a run in the browser."""
    found = re.findall(CASE, text, re.MULTILINE)
    return [Case(name, float(seconds or 0), VERDICTS[word]) for word, name, seconds in found]

"""`make test`: lints, Rust tests, a build for aarch64, deploy/, the Python suite on every interpreter found, the dashboard, and the package.

Prints a line for each part, names what failed and ends with `N passed, N failed, N skipped`, all parts added up.
`python tools/test.py lint rust aarch64 deploy python dashboard package` runs some parts only; `python:cp312` is one interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import aarch64
import dashboard
import interpreters
import package
from commands import streamed
from interpreters import ROOT, Interpreter
from outcomes import Case, Outcome, report
from suite import Suite

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PARTS = ("lint", "rust", "aarch64", "deploy", "python", "dashboard", "package")

RUST_WORDS = {"passed": "passed", "failed": "failed", "timed out": "failed", "skipped": "skipped", "ignored": "skipped"}
"""What nextest and cargo test call an outcome, and what we call it."""

RUST_FAILURE = r"^ +(?:FAIL|TIMEOUT|SIG\w+) \[.*?\] +(?:\(.*?\) +)?(.+)$|^test (.+) \.\.\. FAILED$"
"""How nextest and cargo test name a test that failed."""


def main() -> int:
    """Runs the parts that were asked for."""
    wanted = sys.argv[1:] or list(PARTS)
    for part in wanted:
        if part.partition(":")[0] not in PARTS:
            print(f"usage: test.py [{' | '.join(PARTS)} | python:TAG]…")
            return 2
    asked = {part.partition(":")[0] for part in wanted}
    tags = {part.partition(":")[2] for part in wanted if part.startswith("python:")}
    outcomes: list[Outcome] = []
    built_for = asked & {"python", "dashboard"}
    found = interpreters.find() if built_for else []
    chosen = [it for it in found if not tags or it.tag in tags] if "python" in asked else []
    # Environments are mostly downloads: they are made while the compiler works.
    beside = ThreadPoolExecutor(max_workers=1)
    environments = {it: beside.submit(interpreters.environment, it) for it in chosen if it.venv}
    if "lint" in asked:
        outcomes.append(timed(lambda: single("lint", ["tools/lint"])))
    if "rust" in asked:
        outcomes.append(timed(rust_tests))
    if "aarch64" in asked:
        outcomes.append(timed(other_processor))
    if "deploy" in asked:
        outcomes.append(timed(deployment))
    if built_for:
        built = timed(lambda: single("build", ["tools/build"]))
        outcomes.append(built)
        if built.failed == 0 and "python" in asked:
            outcomes.append(timed(lambda: single("docs/cli.md", [sys.executable, "tools/cli_reference.py", "--check"])))
            for it in chosen:
                without = left_out(it, chosen)
                outcomes.append(timed(lambda: python_tests(it, environments.get(it), without)))
    # A browser waits more than it works: the package is made meanwhile.
    packaged = beside.submit(timed, package_tests) if "package" in asked else None
    if "dashboard" in asked and built.failed == 0:
        outcomes.append(timed(lambda: dashboard_tests(newest_of(found))))
    if packaged:
        outcomes.append(packaged.result())
    return report(outcomes, missing_versions(found) if "python" in asked else [])


def newest_of(found: list[Interpreter]) -> Interpreter | None:
    """The newest of those that everything must work on."""
    return max((it for it in found if it.supported), key=lambda it: it.numbers, default=None)


def left_out(interpreter: Interpreter, chosen: list[Interpreter]) -> list[str]:
    """The marks of tests that other interpreters run: `once` is for the newest, `twice` for the oldest and the newest."""
    supported = sorted((it for it in chosen if it.supported), key=lambda it: it.numbers)
    newest, ends = supported[-1:], [*supported[:1], *supported[-1:]]
    return [mark for mark, runs in (("once", newest), ("twice", ends)) if interpreter not in runs]


def missing_versions(found: list[Interpreter]) -> list[str]:
    """Supported versions that this machine does not have."""
    have = {it.minor for it in found if it.supported}
    return [minor for minor in interpreters.SUPPORTED if minor not in have]


def timed(part) -> Outcome:
    """The part's outcome with the time it took."""
    start = time.monotonic()
    outcome = part()
    outcome.seconds = time.monotonic() - start
    return outcome


def single(title: str, command: list[str]) -> Outcome:
    """A command that holds or does not."""
    print(f"\ntest: {title}", flush=True)
    done = subprocess.run(command, cwd=ROOT).returncode == 0
    return Outcome(title, passed=int(done), failed=int(not done))


def rust_tests() -> Outcome:
    """The workspace's own tests, with nextest where it is installed."""
    print("\ntest: Rust tests", flush=True)
    command = ["cargo", "test", "--locked", "--workspace", "--no-fail-fast"]
    if shutil.which("cargo-nextest"):
        command = ["cargo", "nextest", "run", "--locked", "--workspace", "--no-fail-fast"]
    code, text = streamed(command, dict(os.environ, CARGO_TERM_COLOR="never"))
    outcome = Outcome("Rust tests", note="nextest" if "nextest" in command else "cargo test")
    for summary in re.findall(r"^.*(?:Summary \[.*tests? run:|^test result:).*$", text, re.MULTILINE):
        for word, kind in RUST_WORDS.items():
            counts = [int(number) for number in re.findall(rf"(\d+) {word}", summary)]
            setattr(outcome, kind, getattr(outcome, kind) + sum(counts))
    names = [first or second for first, second in re.findall(RUST_FAILURE, text, re.MULTILINE)]
    outcome.cases = [Case(name, verdict="failed") for name in dict.fromkeys(names)]
    if code != 0 and outcome.failed == 0:
        outcome.fail("did not end well")
    return outcome


def other_processor() -> Outcome:
    """Whether everything compiles for aarch64; skipped where what that needs cannot be fetched."""
    print("\ntest: a build for aarch64", flush=True)
    code = subprocess.run([sys.executable, "tools/aarch64.py", "check"], cwd=ROOT).returncode
    if code == aarch64.CANNOT:
        return Outcome("aarch64", skipped=1, note="Rust's library for it, or zig, cannot be fetched")
    return Outcome("aarch64", passed=int(code == 0), failed=int(code != 0), note="compiled only")


def deployment() -> Outcome:
    """Whether each file of deploy/ is what its own tool takes; what has no tool on this machine is named."""
    print("\ntest: deploy/", flush=True)
    code, text = streamed(["tools/deploy_lint"], dict(os.environ))
    if code == aarch64.CANNOT:
        return Outcome("deploy", skipped=1, note="its tools cannot be fetched")
    missing = re.findall(r"^deploy: there is no ([\w-]+): (?!the expressions)", text, re.MULTILINE)
    return Outcome("deploy", passed=int(code == 0), failed=int(code != 0), note=f"without {', '.join(missing)}" if missing else "")


def python_tests(interpreter: Interpreter, environment: Future[Path] | None, without: list[str]) -> Outcome:
    """The Python suite on one interpreter; where no extension exists for it, what must work without one."""
    print(f"\ntest: {interpreter.title} ({interpreter.executable})", flush=True)
    outcome = Outcome(interpreter.title)
    if environment is None:
        outcome.fail(f"no venv module: sudo apt install python{interpreter.minor}-venv")
        return outcome
    try:
        suite = Suite(interpreter, environment.result(), TARGET, without=without)
    except (OSError, subprocess.SubprocessError) as error:
        outcome.fail(f"no virtual environment: {error}")
        return outcome
    return suite.whole() if interpreter.supported else suite.stand_in()


def dashboard_tests(interpreter: Interpreter | None) -> Outcome:
    """The page of the hub, with programs of one interpreter."""
    print("\ntest: the dashboard", flush=True)
    python = interpreter.executable if interpreter else sys.executable
    return dashboard.tests(TARGET / "fast" / "neurogc", python)


def package_tests() -> Outcome:
    """The package as a user gets it."""
    print("\ntest: the package", flush=True)
    outcome = Outcome("the package")
    for name, held in package.checks(sys.executable):
        print(f"test: {'ok' if held else 'FAILED'}: {name}", flush=True)
        outcome.add([Case(name, verdict="passed" if held else "failed")])
    return outcome


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ntest: interrupted")
        sys.exit(130)

"""`make test`: lints, Rust tests, the Python suite on every interpreter found, and the package.

Prints a line for each part and ends with `N passed, N failed, N skipped`, all parts added up.
`python tools/test.py lint rust python package` runs some parts only; `python:cp312` is one interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import interpreters
import package
from interpreters import ROOT, Interpreter

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PARTS = ("lint", "rust", "python", "package")
SUITE_LIMIT_S = 900

RUST_WORDS = {"passed": "passed", "failed": "failed", "timed out": "failed", "skipped": "skipped", "ignored": "skipped"}
"""What nextest and cargo test call an outcome, and what we call it."""


@dataclass
class Outcome:
    """What came out of one part."""

    title: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"  {self.title:<28} {counts:<36} {self.seconds:6.1f} s  {self.note}".rstrip()


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
    found = interpreters.find() if "python" in asked else []
    chosen = [it for it in found if not tags or it.tag in tags]
    # Environments are mostly downloads: they are made while the compiler works.
    maker = ThreadPoolExecutor(max_workers=1)
    environments = {it: maker.submit(interpreters.environment, it) for it in chosen if it.venv}
    if "lint" in asked:
        outcomes.append(timed(lambda: single("lint", ["tools/lint"])))
    if "rust" in asked:
        outcomes.append(timed(rust_tests))
    if "python" in asked:
        built = timed(lambda: single("build", ["tools/build"]))
        outcomes.append(built)
        if built.failed == 0:
            outcomes.append(timed(lambda: single("docs/cli.md", [sys.executable, "tools/cli_reference.py", "--check"])))
            outcomes += [timed(lambda it=it: python_tests(it, environments.get(it))) for it in chosen]
    if "package" in asked:
        outcomes.append(timed(package_tests))
    return report(outcomes, missing_versions(found) if "python" in asked else [])


def missing_versions(found: list[Interpreter]) -> list[str]:
    """Supported versions that this machine does not have."""
    have = {it.minor for it in found if it.supported}
    return [minor for minor in interpreters.SUPPORTED if minor not in have]


def report(outcomes: list[Outcome], missing: list[str]) -> int:
    """The closing lines; one more than zero failed makes the exit code."""
    print("\ntest: what ran")
    for outcome in outcomes:
        print(outcome)
    if missing:
        print(f"test: supported versions of CPython not found on this machine: {', '.join(missing)}")
        print("test: name more with NEUROGC_TEST_PYTHONS=/path/to/python3.14:/path/to/python3.15")
    failed = sum(it.failed for it in outcomes)
    passed = sum(it.passed for it in outcomes)
    skipped = sum(it.skipped for it in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


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
    if code != 0 and outcome.failed == 0:
        outcome.failed = 1
        outcome.note += ", did not end well"
    return outcome


def python_tests(interpreter: Interpreter, environment: Future[Path] | None) -> Outcome:
    """The Python suite on one interpreter; where no extension exists for it, what must work without one."""
    print(f"\ntest: {interpreter.title} ({interpreter.executable})", flush=True)
    outcome = Outcome(interpreter.title)
    if environment is None:
        outcome.failed, outcome.note = 1, f"no venv module: sudo apt install python{interpreter.minor}-venv"
        return outcome
    try:
        python = environment.result()
    except (OSError, subprocess.SubprocessError) as error:
        outcome.failed, outcome.note = 1, f"no virtual environment: {error}"
        return outcome
    results = TARGET / "test-results" / f"{interpreter.tag}-{interpreter.version}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    suite = "tests" if interpreter.supported else "tests/test_fallback.py"
    command = [str(python), "-m", "pytest", suite, "-v", "-ra", "--tb=short", f"--junitxml={results}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"NEUROGC_BIN": str(TARGET / "fast" / "neurogc"), "PYTHONUNBUFFERED": "1"}
    if not interpreter.supported:
        env["NEUROGC_ALLOW_FALLBACK"] = "1"
    env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
    code, _ = streamed(command, env, limit=SUITE_LIMIT_S)
    read_results(results, outcome)
    if code == 5:
        outcome.failed, outcome.note = outcome.failed + 1, "no tests were found"
    elif code != 0 and outcome.failed == 0:
        outcome.failed, outcome.note = 1, f"pytest ended with {code} (signal or time limit)"
    return outcome


def read_results(path: Path, outcome: Outcome) -> None:
    """Adds up what pytest wrote down."""
    if not path.exists():
        return
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        outcome.failed += failed
        outcome.skipped += skipped
        outcome.passed += int(suite.get("tests", 0)) - failed - skipped


def package_tests() -> Outcome:
    """The package as a user gets it."""
    print("\ntest: the package", flush=True)
    outcome = Outcome("the package")
    for name, held in package.checks(sys.executable):
        print(f"test: {'ok' if held else 'FAILED'}: {name}", flush=True)
        outcome.passed += held
        outcome.failed += not held
    return outcome


def streamed(command: list[str], env: dict[str, str], limit: float | None = None) -> tuple[int, str]:
    """Runs a command, shows its output as it comes, and gives its exit code and output."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    if limit is not None:
        signal.signal(signal.SIGALRM, lambda *_: end(process))
        signal.alarm(int(limit))
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
        return process.wait(), "".join(lines)
    finally:
        signal.alarm(0)
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Stops the command and what it started, if anything of it is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ntest: interrupted")
        sys.exit(130)

"""CPython's own tests of what a collector can disturb, run under `neurogc run --policy gap` (make suites).

    python tools/cpython_suites.py [--policy gap] [--times 1] [--suites test_gc,…] [--snapshots MS] [--outside MS] [--sample KIB] [--tiny] [TAG…]

Each suite runs in one process, without regrtest's workers, so that the agent conducts the very process that runs the
tests, which is verified. A suite that fails is run again without the agent, and only the tests that pass there are
counted against us. It ends with a table: tests run / collections in that process / those of them that we ordered.

With --sample allocations are sampled at that distance: at 0.3 nearly every block is a sampled one.

With --tiny the agent is one built for this, whose pacer has limits so small that it acts all the time.

With --snapshots a thread in that process takes a snapshot every so many milliseconds, whatever the policy would do, and
the table has: tests run / snapshots flown / those of them that came to nothing, most often by a test's own collection.
With --outside the same is asked for from outside, by `neurogc collect PID --how snapshot`, so many milliseconds after each
answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import interpreters
from interpreters import ROOT, Interpreter

SUITES = ["test_gc", "test_weakref", "test_generators", "test_finalization", "test_threading", "test_asyncio"]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
BINARY = TARGET / "fast" / "neurogc"
RUNNER = ROOT / "tools" / "observed_suite.py"
LIMIT_S = 1800
UNOBSERVED = 97


@dataclass
class Outcome:
    """What came out of one run of one suite."""

    code: int
    seconds: float
    tests: int = 0
    failed: set[str] = field(default_factory=set)
    status: dict = field(default_factory=dict)
    output: str = ""
    forced: bool = False

    @property
    def figures(self) -> str:
        """Tests, collections, and those of them that we ordered; of forced snapshots, those that came to nothing."""
        if self.forced:
            flown = self.status.get("gc", {}).get("snapshot", {})
            return f"{self.tests} / {flown.get('count', 0)} / {flown.get('failed', 0)}"
        collections = self.status.get("gc", {})
        count = sum(collections.get(kind, {}).get("count", 0) for kind in ("young", "middle", "full"))
        ordered = sum(each["count"] for each in self.status.get("conduct", {}).get("orders", []))
        return f"{self.tests} / {count} / {ordered}"


def ask_for_snapshots(pid: int, pause_ms: int, over: threading.Event) -> None:
    """Asks for one snapshot after the other, from outside."""
    while not over.wait(pause_ms / 1000):
        words = [str(BINARY), "collect", str(pid), "--how", "snapshot"]
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)


def tiny_package() -> dict[str, str]:
    """Builds the package with an agent whose pacer has tiny limits; gives the settings that make it act all the time."""
    target = TARGET / "tiny"
    env = {**os.environ, "NEUROGC_TINY_LIMITS": "1", "PYO3_PYTHON": "python3", "CARGO_TARGET_DIR": str(target)}
    words = ["cargo", "build", "--locked", "--profile", "fast", "--package", "neurogc-agent"]
    subprocess.run(words, cwd=ROOT, env=env, check=True)
    package = target / "neurogc"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "neurogc", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(target / "fast" / "lib_agent.so", package / "_agent.abi3.so")
    return {"NEUROGC_HOME": str(package), "NEUROGC_GROWTH_PERCENT": "5", "NEUROGC_GC_PERCENT": "100", "NEUROGC_PAUSE_MS": "0.1"}


def run(python: str, suite: str, policy: str, options: argparse.Namespace) -> Outcome:
    """Runs one suite in one process, under a policy or, where that is empty, without us."""
    snapshots, outside = (options.snapshots, options.outside) if policy else (0, 0)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "status.json"
        words = [python, str(RUNNER), str(report), policy, str(snapshots), "--timeout", "300", "-v", suite]
        if policy:
            env |= options.settings
            words = [str(BINARY), "run", "--policy", policy, "--", *words]
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env, cwd=folder
        )
        over = threading.Event()
        if outside:
            threading.Thread(target=ask_for_snapshots, args=(process.pid, outside, over), daemon=True).start()
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += f"\nno end within {LIMIT_S} s"
        over.set()
        forced = snapshots > 0 or outside > 0
        outcome = Outcome(process.returncode, time.monotonic() - began, output=output, forced=forced)
        if report.exists():
            outcome.status = json.loads(report.read_text())
    outcome.tests = sum(int(count) for count in re.findall(r"^Ran (\d+) tests? in", output, re.MULTILINE))
    outcome.failed = {f"{kind} {name}" for kind, name in re.findall(r"^(FAIL|ERROR): (.+?)\s*$", output, re.MULTILINE)}
    if outcome.code != 0 and not outcome.failed:
        outcome.failed = {f"the process ended with {ending(outcome.code)}"}
    return outcome


def ending(code: int) -> str:
    """An exit code in words."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def compare(python: str, suite: str, options: argparse.Namespace) -> tuple[str, int, int, int]:
    """Runs a suite with us, and without where it failed. Gives the table's cell, and passed, failed, skipped."""
    runs, times = [], options.times
    for _ in range(times):
        seen = run(python, suite, options.policy, options)
        runs.append(seen)
        if seen.code == UNOBSERVED or (seen.code == 0 and not seen.status):
            print(seen.output[-1500:])
            return "not conducted", 0, 1, 0
        # Tests that set thresholds make the policy stand down, and their full collections void snapshots. So it should be.
        expected = ("stands down", "a full collection ran before")
        troubles = [it for it in seen.status.get("degraded", []) if not any(words in it for words in expected)]
        if troubles:
            print(f"    degraded: {troubles}")
            return "degraded", 0, 1, 0
        print(f"    {seen.figures}, {seen.seconds:.0f} s, {ending(seen.code)}", flush=True)
    failed = set().union(*(seen.failed for seen in runs))
    cell = runs[-1].figures
    if not failed:
        return cell, times, 0, 0
    log = TARGET / "test-results" / f"{Path(python).name}-{suite}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(seen.output for seen in runs if seen.failed))
    without = set().union(*(run(python, suite, "", options).failed for _ in range(times)))
    for name in sorted(failed):
        print(f"    {'fails without us, too' if name in without else 'OURS ALONE'}: {name} ({log})", flush=True)
    ours = failed - without
    return (f"{cell}, ours: {len(ours)}", 0, 1, 0) if ours else (f"{cell}, {len(failed)} fail without us", 0, 0, 1)


def tested(interpreter: Interpreter, options: argparse.Namespace) -> tuple[dict[str, str], list[int]]:
    """Runs the suites on one interpreter."""
    cells, sums = {}, [0, 0, 0]
    for suite in options.suites.split(","):
        print(f"{interpreter.title}, {suite}", flush=True)
        there = subprocess.run([interpreter.executable, "-I", "-c", f"import test.{suite}"], capture_output=True)
        if there.returncode != 0:
            cells[suite], *counts = "not installed", 0, 0, 1
        else:
            cells[suite], *counts = compare(interpreter.executable, suite, options)
        sums = [one + other for one, other in zip(sums, counts)]
    return cells, sums


def main() -> int:
    """Runs every suite on every supported interpreter that has it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="gap")
    parser.add_argument("--times", type=int, default=1, help="how often each suite runs")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--snapshots", type=int, default=0, metavar="MS", help="force one every so many milliseconds")
    parser.add_argument("--outside", type=int, default=0, metavar="MS", help="the same, asked for from outside")
    parser.add_argument("--sample", default="", metavar="KIB", help="the distance of allocation samples")
    parser.add_argument("--tiny", action="store_true", help="an agent whose pacer acts all the time")
    parser.add_argument("tags", nargs="*", help="interpreters, for instance cp312; all without")
    options = parser.parse_args()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        print("run this in the foreground: with interrupts ignored, tests fail by themselves")
        return 2
    options.settings = tiny_package() if options.tiny else {}
    if options.sample:
        options.settings["NEUROGC_SAMPLE_KIB"] = options.sample
    chosen = [it for it in interpreters.find() if it.supported and (not options.tags or it.tag in options.tags)]
    results = {it: tested(it, options) for it in chosen}
    print(f"\n| | {' | '.join(options.suites.split(','))} |\n|---|{'---|' * len(options.suites.split(','))}")
    for interpreter, (cells, _) in results.items():
        print(f"| {interpreter.title} | {' | '.join(cells.values())} |")
    passed, failed, skipped = (sum(sums[index] for _, sums in results.values()) for index in range(3))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the programs of this folder under `neurogc run` and compares the verdicts of `neurogc memory` with what they say.

A program says in constants which verdict is right: KIND (one kind, several that are right, or None for a healthy one) and
HOLDER (the name of what holds the memory, several names of the same thing, or None where nothing in Python holds it).
`# the leak` marks the lines that may be named. A right finding counts even if there are others beside it; these are counted, too.

    python bench/leaks/run.py [--seconds 180] [--healthy-seconds 600] [--jobs 4] [--python EXE] [--json FILE] [--aside | --all] [NAME…]

All of them at once on a machine of 16 cores, in less than ten minutes:

    python bench/leaks/run.py --all --jobs 100 --seconds 185 --healthy-seconds 540 --deadline 560 --json leaks.json

The programs in `aside` were written before they were first run, so that their first run tells what the verdict is worth on programs that
it was not made for:

- first set of 11: leak_pipes and leak_executors were told as another kind, and healthy_growing_buffers raised an alarm. The rules were
  changed after that run.
- second set of 4 (leak_handles, leak_loops, healthy_receive_buffers, healthy_tenants): all four were right; the healthy ones ran for
  180 s.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "# the leak"
POLL_S = 5.0

ALARMS = {
    "unbounded_container", "unbounded_cache", "callbacks", "stored_exceptions", "logging", "contexts", "modules", "tasks",
    "threads", "descriptors", "children", "cyclic_garbage", "python_growth", "native_growth", "arena_explosion",
    "malloc_free", "pymalloc_pinned",
}
"""Kinds of findings (crates/wire/src/finding.rs) that say that something is wrong. One in a healthy program is a false alarm."""

HAS_NO_LINE = {"threads", "children", "arena_explosion", "malloc_free", "pymalloc_pinned"}
"""Kinds that may come without a line: what grows is not allocated by one."""

LEAST_S = 60.0
"""A program that could run for less time is not run."""

STAGGER_S = 0.25
"""Between two starts, so that a hundred programs do not all import their modules in the same second."""

SURE = 0.6
"""A finding of less confidence is no alarm."""


def several(constant: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """A constant that may be one text, several, or none."""
    return () if constant is None else (constant,) if isinstance(constant, str) else tuple(constant)


@dataclass
class Program:
    """A program and its right verdict."""

    path: Path
    kinds: tuple[str, ...]
    holders: tuple[str, ...]
    """Names that are right; none where any is."""
    lines: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> Program:
        text = path.read_text(encoding="utf-8")
        constants = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("KIND", "HOLDER"):
                constants[node.targets[0].id] = ast.literal_eval(node.value)
        kinds, holders = (several(constants.get(name)) for name in ("KIND", "HOLDER"))
        assert set(kinds) <= ALARMS, f"{path.name}: a kind that there is not in {kinds}"
        lines = tuple(number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK))
        return cls(path, kinds, holders, lines)

    @property
    def is_healthy(self) -> bool:
        return not self.kinds


@dataclass
class Verdict:
    """What came of one program."""

    name: str
    right: bool = False
    after_s: float | None = None
    said: list[str] = field(default_factory=list)
    """What is wrong, or the findings that were made."""
    beside: int = 0
    """Alarms beside the right one."""
    findings: list[dict] = field(default_factory=list)
    """All findings of the last answer, where the verdict is wrong."""


def judge(program: Program, findings: list[dict]) -> tuple[bool, list[str]]:
    """Whether the findings are the right ones, and in words what was found."""
    alarms = [it for it in findings if it["kind"] in ALARMS and it.get("confidence", 1) >= SURE]
    said = [f"{it['kind']} {it.get('confidence', 0):.2f} {it.get('holder') or '-'} {it.get('site') or '-'}" for it in alarms]
    if program.is_healthy:
        return not alarms, said
    return any(is_right(program, it) for it in alarms), said


def is_right(program: Program, finding: dict) -> bool:
    """Whether it has the right kind, holder and line."""
    if finding["kind"] not in program.kinds:
        return False
    holder = finding.get("holder") or ""
    if program.holders and not any(holder == it or holder.startswith((it + "[", it + ".")) for it in program.holders):
        return False
    site = finding.get("site") or ""
    if not site:
        return finding["kind"] in HAS_NO_LINE
    return any(f"{program.path.name}:{line} " in f"{site} " for line in program.lines)


def watch(program: Program, options: argparse.Namespace) -> Verdict:
    """Runs a program until its verdict is there, or a healthy one until its time is over."""
    seconds = options.healthy_seconds if program.is_healthy else options.seconds
    verdict = Verdict(program.path.stem, right=program.is_healthy)
    left = options.began + options.deadline - time.monotonic()
    if left < LEAST_S:
        verdict.right, verdict.said = False, ["not run: there was no time left"]
        return verdict
    seconds = min(seconds, left)
    words = [options.neurogc, "run", "--", options.python, str(program.path), str(seconds + 60)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True, env=environment())
        began = time.monotonic()
        try:
            while (passed := time.monotonic() - began) < seconds:
                time.sleep(min(POLL_S, max(seconds - passed, 0.1)))
                if process.poll() is not None:
                    output.seek(0)
                    verdict.right, verdict.said = False, [f"it ended: {output.read().decode(errors='replace')[-300:]}"]
                    break
                findings = ask(options.neurogc, process.pid)
                if findings is None:
                    continue
                right, said = judge(program, findings)
                verdict.said, verdict.findings = said or verdict.said, findings
                if right != program.is_healthy:
                    # A leak that was found, or a false alarm.
                    verdict.right, verdict.after_s = right, time.monotonic() - began
                    verdict.beside = max(len(said) - 1, 0)
                    break
        finally:
            # The group is the program's own: it began a new session.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    verdict.findings = [] if verdict.right else [brief(finding) for finding in verdict.findings]
    return verdict


def brief(finding: dict) -> dict:
    """A finding without its points and what is said of its kind in general."""
    kept = {name: finding.get(name) for name in ("kind", "confidence", "holder", "site", "text", "since_s") if finding.get(name)}
    series = [f"{it['what']}: {it['shape']}, {it['seconds']:.0f} s, now {it['now']:.0f}" for it in finding.get("evidence", [])]
    return kept | {"evidence": series}


def environment() -> dict[str, str]:
    """Ours, without what would tell the agent something else."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    # Programs in `aside` import the clock from here.
    return ours | {"PYTHONPATH": str(HERE)}


def ask(neurogc: str, pid: int) -> list[dict] | None:
    """The findings on a process; None where there is no answer yet."""
    done = subprocess.run([neurogc, "memory", str(pid), "--json"], capture_output=True, text=True, timeout=60, env=environment())
    try:
        return json.loads(done.stdout)["findings"]
    except (ValueError, KeyError, TypeError):
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs, without .py (default: all)")
    parser.add_argument("--seconds", type=float, default=180, help="time for a leak to be found")
    parser.add_argument("--healthy-seconds", type=float, default=600, help="time in which a healthy program must raise no alarm")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="all ends after this many seconds")
    parser.add_argument("--jobs", type=int, default=4, help="programs at the same time; healthy ones are started first")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--neurogc", default=os.environ.get("NEUROGC_BIN") or shutil.which("neurogc") or "target/fast/neurogc")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--aside", action="store_true", help="the programs that were set aside, instead of the others")
    which.add_argument("--all", action="store_true", help="the programs that were set aside, and the others")
    parser.add_argument("--json", type=Path, help="write all verdicts to this file")
    options = parser.parse_args()
    options.neurogc = str(Path(options.neurogc).resolve())
    folders = [HERE, HERE / "aside"] if options.all else [HERE / "aside"] if options.aside else [HERE]
    paths = [path for folder in folders for path in sorted(folder.glob("*_*.py")) if path.name.startswith(("leak_", "healthy_"))]
    programs = [Program.read(path) for path in paths]
    chosen = [program for program in programs if not options.names or program.path.stem in options.names]
    unknown = set(options.names) - {program.path.stem for program in programs}
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    chosen.sort(key=lambda program: not program.is_healthy)
    options.began = time.monotonic()
    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = []
        for number, program in enumerate(chosen):
            futures.append(pool.submit(watch, program, options))
            if number + 1 < options.jobs:
                time.sleep(STAGGER_S)
        for done in as_completed(futures):
            verdicts.append(done.result())
            show(verdicts[-1])
    return summarize(verdicts, options.json)


def show(verdict: Verdict) -> None:
    """One line for one program."""
    after = f"{verdict.after_s:5.0f} s" if verdict.after_s is not None else "       "
    print(f"{'right' if verdict.right else 'WRONG'} {after}  {verdict.name:28} {'; '.join(verdict.said)[:160]}", flush=True)


def summarize(verdicts: list[Verdict], path: Path | None) -> int:
    """The last lines, the file, and the exit status."""
    verdicts.sort(key=lambda verdict: verdict.name)
    leaks = [verdict for verdict in verdicts if verdict.name.startswith("leak_")]
    healthy = [verdict for verdict in verdicts if verdict.name.startswith("healthy_")]
    found = sum(verdict.right for verdict in leaks)
    alarms = sum(not verdict.right for verdict in healthy)
    times = sorted(verdict.after_s for verdict in leaks if verdict.right and verdict.after_s is not None)
    lines = [
        f"leaks found with kind, holder and line: {found} of {len(leaks)}; false alarms: {alarms} of {len(healthy)} healthy programs",
        f"other alarms beside the right one: in {sum(verdict.beside > 0 for verdict in leaks)} leaks",
    ]
    if times:
        lines.append(f"found after {times[len(times) // 2]:.0f} s (median), {times[-1]:.0f} s (longest)")
    wrong = [verdict.name for verdict in verdicts if not verdict.right]
    lines.append(f"wrong: {', '.join(wrong) or 'none'}")
    print("\n".join(lines))
    if path:
        path.write_text(json.dumps({"summary": lines, "verdicts": [asdict(verdict) for verdict in verdicts]}, indent=1))
    return 0 if alarms == 0 and found >= 0.95 * len(leaks) else 1


if __name__ == "__main__":
    sys.exit(main())

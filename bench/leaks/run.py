"""Runs the programs of this folder under `neurogc run` and compares the verdicts of `neurogc memory` with what they say.

A program says in constants which verdict is right: KIND (one kind, several that are right, or None for a healthy one) and
HOLDER (None where nothing in Python holds the memory). `# the leak` marks the lines that may be named.

    python bench/leaks/run.py [--seconds 180] [--healthy-seconds 600] [--jobs 4] [--python EXE] [--json FILE] [--aside] [NAME…]

The programs in `aside` were written after the rules of the verdict, and no rule was changed for them: they tell what the verdict is
worth on programs that it was not made for.
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
from concurrent.futures import ThreadPoolExecutor
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

SURE = 0.6
"""A finding of less confidence is no alarm."""


@dataclass
class Program:
    """A program and its right verdict."""

    path: Path
    kinds: tuple[str, ...]
    holder: str | None
    lines: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> Program:
        text = path.read_text(encoding="utf-8")
        constants = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("KIND", "HOLDER"):
                constants[node.targets[0].id] = ast.literal_eval(node.value)
        kind = constants["KIND"]
        kinds = () if kind is None else (kind,) if isinstance(kind, str) else tuple(kind)
        assert set(kinds) <= ALARMS, f"{path.name}: a kind that there is not in {kinds}"
        lines = tuple(number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK))
        return cls(path, kinds, constants.get("HOLDER"), lines)

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
    if program.holder is not None and not (holder == program.holder or holder.startswith((program.holder + "[", program.holder + "."))):
        return False
    site = finding.get("site") or ""
    if not site:
        return finding["kind"] in HAS_NO_LINE
    return any(f"{program.path.name}:{line} " in f"{site} " for line in program.lines)


def watch(program: Program, options: argparse.Namespace) -> Verdict:
    """Runs a program until its verdict is there, or a healthy one until its time is over."""
    seconds = options.healthy_seconds if program.is_healthy else options.seconds
    verdict = Verdict(program.path.stem, right=program.is_healthy)
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
                verdict.said = said or verdict.said
                if right != program.is_healthy:
                    # A leak that was found, or a false alarm.
                    verdict.right, verdict.after_s = right, time.monotonic() - began
                    break
        finally:
            # The group is the program's own: it began a new session.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return verdict


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
    parser.add_argument("--jobs", type=int, default=4, help="programs at the same time")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--neurogc", default=os.environ.get("NEUROGC_BIN") or shutil.which("neurogc") or "target/fast/neurogc")
    parser.add_argument("--aside", action="store_true", help="the programs that were set aside, instead of the others")
    parser.add_argument("--json", type=Path, help="write all verdicts to this file")
    options = parser.parse_args()
    options.neurogc = str(Path(options.neurogc).resolve())
    folder = HERE / "aside" if options.aside else HERE
    programs = [Program.read(path) for path in sorted(folder.glob("*_*.py")) if path.name.startswith(("leak_", "healthy_"))]
    chosen = [program for program in programs if not options.names or program.path.stem in options.names]
    unknown = set(options.names) - {program.path.stem for program in programs}
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = []
        for verdict in pool.map(lambda program: watch(program, options), chosen):
            verdicts.append(verdict)
            after = f"{verdict.after_s:5.0f} s" if verdict.after_s is not None else "       "
            print(f"{'right' if verdict.right else 'WRONG'} {after}  {verdict.name:28} {'; '.join(verdict.said)[:160]}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    leaks = [verdict for verdict in verdicts if verdict.name.startswith("leak_")]
    healthy = [verdict for verdict in verdicts if verdict.name.startswith("healthy_")]
    found = sum(verdict.right for verdict in leaks)
    alarms = sum(not verdict.right for verdict in healthy)
    print(f"leaks found with kind, holder and line: {found} of {len(leaks)}; false alarms: {alarms} of {len(healthy)} healthy programs")
    return 0 if alarms == 0 and found >= 0.95 * len(leaks) else 1


if __name__ == "__main__":
    sys.exit(main())

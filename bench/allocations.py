"""What the allocation sampler costs: instructions of the program's main thread, counted by Valgrind.

    python bench/allocations.py [--python EXE]... [--program NAME]... [--with native]... [--pyperformance FOLDER]
                                [--log FILE] [--interval KIB] [--clock PAIRS] [--save cost|tools|heaps|time]

Runs programs of our own and of pyperformance, with and without the sampler, and prints the ratio of the instructions of
their rounds. The start of the process is not counted. Threads of the agent are not counted either: under Valgrind they wake
far more often for each instruction of the program.

`--log` keeps every count in a file; what is there already is not counted again, so a long run can be done in parts. `--save` writes
a table for the documentation: `cost` has a row for each interpreter, `tools` compares other profilers, `heaps` says whether
the cost depends on how many objects live.

`--interval KIB` sets `sample_kib`. The distance between samples grows with the heap, so the programs `heap:…` cost less beside larger heaps.
`--program heap:100000 --program heap:1000000 --program heap:5000000 --interval 256 --save heaps` shows whether the hooks alone are flat: at
256 KiB even the largest heap has so few samples that the distance stays as it is, and the program fails if it does not.

`--clock PAIRS` measures time instead, without Valgrind: each program runs so many times with the sampler and without it in turn, and its
figure is the median of the pairs. `--save time` writes that table.

`--pyperformance` is the folder `pyperformance/data-files/benchmarks` of an installed pyperformance; without it only our own
programs run. `--with tracemalloc`, `memray`, `ddtrace` or `reftracer` runs another hook, without NeuroGC, beside it; `--packages` is
where it is installed. Such a one is compared with the plain program.

What sampling takes in memory: `bench/allocation_memory.py`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import results

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "python" / "neurogc"
COUNTED = Path(__file__).resolve().parent / "counted"

NEUROGC = ("python", "native")
OTHERS = ("tracemalloc", "memray", "ddtrace", "reftracer")


@dataclass(frozen=True)
class Program:
    """A program, and how long it runs."""

    rounds: int
    constants: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


OWN = {
    "web": Program(150),
    "awaits": Program(60),
    "objects": Program(60),
    "texts": Program(150),
    "buffers": Program(200),
    "numbers": Program(60),
    "heap": Program(60),
}
HEAPS = {f"heap:{live}": Program(60, (f"LIVE={live}",)) for live in (100_000, 1_000_000, 5_000_000)}

# Each runs for about a tenth of a second outside Valgrind.
PYPERFORMANCE = {
    "argparse": Program(80, arguments=("many_optionals",)),
    "async_tree": Program(5, ("NUM_RECURSE_LEVELS=4",), ("none",)),
    "chaos": Program(2),
    "comprehensions": Program(1000),
    "coroutines": Program(1),
    "decimal_factorial": Program(1),
    "deepcopy": Program(200),
    "deltablue": Program(12),
    "float": Program(1),
    "generators": Program(1),
    "go": Program(1),
    "hexiom": Program(15),
    "json_dumps": Program(5),
    "json_loads": Program(150),
    "logging": Program(500, arguments=("format",)),
    "meteor_contest": Program(1),
    "nbody": Program(1),
    "nqueens": Program(1),
    "pathlib": Program(3),
    "pickle": Program(300, arguments=("pickle",)),
    "pidigits": Program(1),
    "pyflate": Program(1),
    "raytrace": Program(1, ("DEFAULT_WIDTH=60", "DEFAULT_HEIGHT=60")),
    "regex_compile": Program(1),
    "regex_v8": Program(4),
    "richards": Program(2),
    "scimark": Program(1, arguments=("sor",)),
    "spectral_norm": Program(1),
    "sqlite_synth": Program(400),
    "telco": Program(12),
    "typing_runtime_protocols": Program(400),
    "unpack_sequence": Program(800),
    "xml_etree": Program(1, arguments=("--etree-module", "xml.etree.ElementTree")),
}


def script(name: str, pyperformance: Path | None) -> tuple[Path, Program]:
    """The file of a program, and how it runs."""
    if name in OWN | HEAPS:
        return COUNTED / "programs" / f"{name.partition(':')[0]}.py", (OWN | HEAPS)[name]
    if pyperformance is None:
        raise SystemExit(f"{name} is a program of pyperformance: --pyperformance says where that is")
    return pyperformance / f"bm_{name}" / "run_benchmark.py", PYPERFORMANCE[name]


def environment(mode: str, packages: str | None, interval: float | None) -> dict[str, str]:
    """The environment of a process that is counted."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON", "LD_"))}
    own |= {"PYTHONHASHSEED": "0"}
    if mode == "plain" or mode in OTHERS:
        return own | {"NEUROGC_BENCH_TOOL": mode, "PYTHONPATH": packages or ""}
    own |= {
        "PYTHONPATH": str(HOME / "_inject"),
        "NEUROGC_HOME": str(HOME),
        "NEUROGC_POLICY": "observe",
        "NEUROGC_ADAPTERS": "false",
        # Valgrind knows no clones that share the table of files.
        "NEUROGC_SNAPSHOTS": "false",
        "NEUROGC_CENSUS_S": "0",
        "NEUROGC_ALLOCATIONS": mode,
    }
    if interval is not None and mode != "off":
        # The program looks whether the distance is this one at its end.
        own |= {"NEUROGC_SAMPLE_KIB": f"{interval:g}", "NEUROGC_BENCH_INTERVAL": f"{interval:g}"}
    if mode == "native":
        own["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    return own


def count(python: str, name: str, mode: str, given: argparse.Namespace) -> int:
    """Instructions of the main thread during the rounds of a program."""
    path, program = script(name, given.pyperformance)
    with tempfile.TemporaryDirectory(prefix="neurogc-count-") as folder:
        options = ["--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
        rounds = max(1, round(program.rounds * given.part))
        words = [str(path), str(rounds), *program.constants, "--", *program.arguments]
        command = ["valgrind", *options, python, str(COUNTED / "pyperf.py"), *words]
        own = environment(mode, given.packages, given.interval)
        done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=1800)
        files = list(Path(folder).glob("out.1-01"))
        if done.returncode != 0 or len(files) != 1:
            raise SystemExit(f"{name} with {mode}: {done.stderr[-2000:]}")
        if given.keep:
            kept = given.keep / f"{name}-{mode}-{Path(python).parent.parent.name}.callgrind"
            kept.write_bytes(files[0].read_bytes())
        totals = re.search(r"^(?:totals|summary): (\d+)", files[0].read_text(errors="replace"), re.MULTILINE)
        if totals is None:
            raise SystemExit(f"{files[0]} has no total")
        return int(totals[1])


def clock(python: str, name: str, given: argparse.Namespace) -> float:
    """The time of a program's rounds with the sampler to that without it."""
    path, program = script(name, given.pyperformance)
    command = [python, str(COUNTED / "pyperf.py"), str(path), str(program.rounds), *program.constants, "--", *program.arguments]

    def seconds(mode: str) -> float:
        with tempfile.TemporaryDirectory(prefix="neurogc-clock-") as folder:
            own = environment(mode, None, given.interval) | {"NEUROGC_BENCH_CLOCK": "1"}
            done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=600)
        found = re.search(r"^counted: (\S+)", done.stderr, re.MULTILINE)
        if done.returncode != 0 or found is None:
            raise SystemExit(f"{name} with {mode}: {done.stderr[-2000:]}")
        return float(found[1])

    pairs = [{mode: seconds(mode) for mode in (("off", "native") if turn % 2 else ("native", "off"))} for turn in range(given.clock)]
    return statistics.median(pair["native"] / pair["off"] for pair in pairs)


class Counts:
    """What was counted: in a file, if one is given."""

    def __init__(self, given: argparse.Namespace):
        self.given = given
        self.known: dict[tuple[str, str, str], int] = {}
        self.suffix = "" if given.interval is None else f"@{given.interval:g}"
        if given.log and given.log.exists():
            for line in given.log.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["version"], entry["program"], entry["mode"]] = entry["instructions"]

    def of(self, python: str, name: str, mode: str) -> int:
        """Instructions of a program, which is run unless that is known."""
        key = (version(python), name, mode if mode in ("off", "plain") else mode + self.suffix)
        if key not in self.known:
            self.known[key] = count(python, name, mode, self.given)
            if self.given.log:
                entry = {"version": key[0], "program": name, "mode": key[2], "instructions": self.known[key]}
                with self.given.log.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
        return self.known[key]

    def ratio(self, python: str, name: str, mode: str) -> float:
        """The instructions with a profiler to those without it."""
        return self.of(python, name, mode) / self.of(python, name, "off" if mode in NEUROGC else "plain")


@functools.cache
def version(python: str) -> str:
    """The version of an interpreter."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def measured(*interpreters: str) -> str:
    """When and with what something was counted."""
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, CPython {', '.join(interpreters)}, {platform.machine()}, one run each"


def figure(value: float, goal: float = math.inf) -> str:
    """A ratio, bold where it misses its goal."""
    return results.bold(f"{value:.3f}", value > goal)


def save_cost(python: str, ratios: dict[str, dict[str, float]], _: argparse.Namespace) -> None:
    """One row: an interpreter, the programs of pyperformance together, and each of our own."""
    native = ratios["native"]
    found = {name: value for name, value in native.items() if name in PYPERFORMANCE}
    worst = max(found, key=found.__getitem__)
    row = [
        version(python),
        str(len(found)),
        figure(mean(found.values()), 1.02),
        f"{figure(found[worst], 1.05)} (`{worst}`)",
        *(figure(native[name], 1.05) if name in native else "" for name in OWN),
    ]
    columns = ["CPython", "programs", "geometric mean", "worst", *(f"`{name}`" for name in OWN)]
    command = "python bench/allocations.py --pyperformance FOLDER --save cost"
    results.save("allocations", command, columns, [row], keys=1, measured=measured(version(python)))


def save_tools(python: str, ratios: dict[str, dict[str, float]], _: argparse.Namespace) -> None:
    """One row for each program, one column for each profiler."""
    names = list(next(iter(ratios.values())))
    rows = [[f"`{name}`", *(f"{every[name]:.2f}" for every in ratios.values())] for name in names]
    rows.append(["geometric mean", *(f"{mean(every.values()):.2f}" for every in ratios.values())])
    titles = {"native": "NeuroGC, native included", "python": "NeuroGC, Python only", "memray": "memray with `trace_python_allocators`"}
    columns = ["program", *(titles.get(mode, mode) for mode in ratios)]
    modes = " ".join(f"--with {mode}" for mode in ratios)
    command = f"python bench/allocations.py {modes} --packages FOLDER --pyperformance FOLDER --save tools"
    results.save("allocation-tools", command, columns, rows, keys=1, measured=measured(version(python)))


def save_heaps(python: str, ratios: dict[str, dict[str, float]], given: argparse.Namespace) -> None:
    """One row for an interpreter: what the same work costs beside heaps of different sizes."""
    found = {name: ratios["native"][name] for name in HEAPS}
    spread = max(found.values()) / min(found.values()) - 1
    row = [version(python), *(f"{value:.4f}" for value in found.values()), results.bold(f"{100 * spread:.2f} %", spread > 0.003)]
    columns = ["CPython", *(f"{int(name.partition(':')[2]):,} objects" for name in HEAPS), "largest ÷ smallest"]
    programs = " ".join(f"--program {name}" for name in HEAPS)
    # In a table of its own where the distance is fixed.
    name, option = ("allocation-heaps", "") if given.interval is None else ("allocation-heaps-fixed", f"--interval {given.interval:g} ")
    command = f"python bench/allocations.py {programs} {option}--save heaps"
    results.save(name, command, columns, [row], keys=1, measured=measured(version(python)))


def save_time(python: str, ratios: dict[str, dict[str, float]], given: argparse.Namespace) -> None:
    """One row for an interpreter: what the programs of pyperformance take in time."""
    found = {name: value for name, value in ratios["native"].items() if name in PYPERFORMANCE}
    worst = max(found, key=found.__getitem__)
    middle = [f"{of(found.values()):.3f}" for of in (mean, statistics.median)]
    row = [version(python), str(len(found)), *middle, f"{found[worst]:.3f} (`{worst}`)"]
    columns = ["CPython", "programs", "geometric mean", "median", "worst"]
    command = f"python bench/allocations.py --clock {given.clock} --pyperformance FOLDER --save time"
    results.save("allocation-time", command, columns, [row], keys=1, measured=measured(version(python)).removesuffix(", one run each"))


TABLES = {"cost": save_cost, "tools": save_tools, "heaps": save_heaps, "time": save_time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter to measure (default: this one)")
    parser.add_argument("--program", action="append", choices=[*OWN, *HEAPS, *PYPERFORMANCE], help="default: all but heap:…")
    parser.add_argument("--with", dest="modes", action="append", choices=[*NEUROGC, *OTHERS], help="default: native")
    parser.add_argument("--pyperformance", type=Path, help="the folder with pyperformance's programs")
    parser.add_argument("--packages", help="the folder with memray and ddtrace")
    parser.add_argument("--interval", type=float, help="the distance of sampling points in KiB, which must stay as it is")
    parser.add_argument("--clock", type=int, metavar="PAIRS", help="measure time instead, so many times with and without")
    parser.add_argument("--keep", type=Path, help="a folder for Callgrind's files")
    parser.add_argument("--part", type=float, default=1, help="this part of the rounds of each program")
    parser.add_argument("--log", type=Path, help="a file for every count")
    parser.add_argument("--save", choices=TABLES, help="the table to write")
    given = parser.parse_args()
    if (given.save == "time") != bool(given.clock) and given.save:
        parser.error("the table of times is that of --clock, and the others are counted")
    counts = Counts(given)
    programs = given.program or [*OWN, *(PYPERFORMANCE if given.pyperformance else [])]
    for python in given.python or [sys.executable]:
        ratios: dict[str, dict[str, float]] = {}
        if not given.clock:
            # The first run compiles modules of the standard library.
            count(python, programs[0], "off", given)
        for name in programs:
            if given.clock:
                row = {"native": clock(python, name, given)}
            else:
                row = {mode: counts.ratio(python, name, mode) for mode in given.modes or ["native"]}
            print(json.dumps({"program": name, **{mode: round(value, 4) for mode, value in row.items()}}), flush=True)
            for mode, value in row.items():
                ratios.setdefault(mode, {})[name] = value
        for mode, every in ratios.items():
            # A geometric mean is over pyperformance's programs, where there are any: our own are chosen to be hard.
            found = {name: value for name, value in every.items() if name in PYPERFORMANCE} or every
            worst = max(found, key=found.__getitem__)
            print(f"{python} {mode}: geometric mean {mean(found.values()):.4f}, worst {found[worst]:.4f} ({worst})", flush=True)
        if given.save:
            TABLES[given.save](python, ratios, given)


if __name__ == "__main__":
    main()

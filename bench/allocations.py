"""What the allocation sampler costs: instructions of the program's main thread, counted by Valgrind.

    python bench/allocations.py [--python EXE]... [--program NAME]... [--with native]... [--pyperformance FOLDER]

Runs programs of our own and of pyperformance, with and without the sampler, and prints the ratio of the instructions of
their rounds. The start of the process is not counted. Threads of the agent are not counted either: under Valgrind they wake
far more often for each instruction of the program.

`--pyperformance` is the folder `pyperformance/data-files/benchmarks` of an installed pyperformance; without it only our own
programs run. `--with tracemalloc`, `memray`, `ddtrace` or `reftracer` runs another hook, without NeuroGC, beside it; `--packages` is
where it is installed. Such a one is compared with the plain program.

What sampling takes in memory: `bench/allocation_memory.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

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
    "coroutines": Program(5),
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


def environment(mode: str, packages: str | None) -> dict[str, str]:
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
        "NEUROGC_ALLOCATIONS": mode,
    }
    if mode == "native":
        own["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    return own


def count(python: str, name: str, mode: str, given: argparse.Namespace) -> int:
    """Instructions of the main thread during the rounds of a program."""
    path, program = script(name, given.pyperformance)
    with tempfile.TemporaryDirectory(prefix="neurogc-count-") as folder:
        options = ["--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
        words = [str(path), str(program.rounds), *program.constants, "--", *program.arguments]
        command = ["valgrind", *options, python, str(COUNTED / "pyperf.py"), *words]
        own = environment(mode, given.packages)
        done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=900)
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


def ratio(python: str, name: str, mode: str, given: argparse.Namespace, known: dict[str, int]) -> float:
    """The instructions with a profiler to those without it."""
    base = "off" if mode in NEUROGC else "plain"
    if base not in known:
        known[base] = count(python, name, base, given)
    return count(python, name, mode, given) / known[base]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter to measure (default: this one)")
    parser.add_argument("--program", action="append", choices=[*OWN, *HEAPS, *PYPERFORMANCE], help="default: all but heap:…")
    parser.add_argument("--with", dest="modes", action="append", choices=[*NEUROGC, *OTHERS], help="default: native")
    parser.add_argument("--pyperformance", type=Path, help="the folder with pyperformance's programs")
    parser.add_argument("--packages", help="the folder with memray and ddtrace")
    parser.add_argument("--keep", type=Path, help="a folder for Callgrind's files")
    given = parser.parse_args()
    programs = given.program or [*OWN, *(PYPERFORMANCE if given.pyperformance else [])]
    for python in given.python or [sys.executable]:
        ratios: dict[str, dict[str, float]] = {}
        # The first run compiles modules of the standard library.
        count(python, programs[0], "off", given)
        for name in programs:
            known: dict[str, int] = {}
            row = {mode: ratio(python, name, mode, given, known) for mode in given.modes or ["native"]}
            print(json.dumps({"program": name, **known, **{mode: round(value, 4) for mode, value in row.items()}}), flush=True)
            for mode, value in row.items():
                ratios.setdefault(mode, {})[name] = value
        for mode, every in ratios.items():
            # A geometric mean is over pyperformance's programs, where there are any: our own are chosen to be hard.
            found = {name: value for name, value in every.items() if name in PYPERFORMANCE} or every
            mean = math.exp(sum(map(math.log, found.values())) / len(found))
            worst = max(found, key=found.__getitem__)
            print(f"{python} {mode}: geometric mean {mean:.4f}, worst {found[worst]:.4f} ({worst})", flush=True)


if __name__ == "__main__":
    main()

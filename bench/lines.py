"""What `@neurogc.profile_memory` costs: the time of marked functions as a multiple of the same functions unmarked.

    python bench/lines.py [--python EXE] [--rounds 7]

Marked and unmarked calls alternate, and the fastest of each counts: the others were disturbed. Each function is called once for each round
and runs for some hundredths of a second, so that the beginning and the end of the counting are no large part of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python"

PROGRAM = '''
import json, sys, time
import neurogc

def numbers(count=60_000):
    """Lines that allocate next to nothing."""
    total = 0
    for number in range(count):
        half = number >> 1
        if half & 1:
            total += half
    return total

def rows(count=20_000):
    """A parser: lines that make strings, lists and dicts."""
    kept = []
    for number in range(count):
        text = f"{number},name {number},{number * 1.5}"
        cells = text.split(",")
        row = {"id": int(cells[0]), "name": cells[1], "value": float(cells[2])}
        if row["id"] % 3:
            kept.append(row)
    return len(kept)

def calls(count=6_000):
    """Lines that call functions which are not marked, and do most of the work."""
    found = []
    for number in range(count):
        text = json.dumps({"number": number, "list": list(range(20))})
        found.append(len(json.loads(text)["list"]))
    return sum(found)

def large(count=300):
    """Lines that each work on much memory."""
    sizes = []
    for number in range(count):
        block = bytearray(2_000_000)
        sizes.append(block.count(0))
        del block
    return sum(sizes)

def fastest(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began

for plain in (numbers, rows, calls, large):
    code = plain.__code__
    marked = neurogc.profile_memory(type(plain)(code.replace(), plain.__globals__, plain.__name__, plain.__defaults__))
    plain(), marked()
    times = [(fastest(plain), fastest(marked)) for _ in range(int(sys.argv[1]))]
    one, other = (min(column) for column in zip(*times))
    lines = sum(line.times for line in marked.memory.lines.values()) / marked.memory.calls
    print(f"{plain.__name__:8} {one * 1e3:8.1f} ms {other * 1e3:8.1f} ms {other / one:6.2f} x {(other - one) / lines * 1e9:7.0f} ns a line", flush=True)
neurogc._lines._profiler.profiles.clear()
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")} | {"PYTHONPATH": str(HOME)}
    print("function   unmarked      marked  times")
    sys.stdout.flush()
    subprocess.run([options.python, "-c", PROGRAM, str(options.rounds)], env=environment, check=True)


if __name__ == "__main__":
    main()

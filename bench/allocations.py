"""What the allocation sampler costs: instructions of the program's main thread, counted by Valgrind.

    python bench/allocations.py [--python EXE]... [--program NAME]... [--mode native]...

Each program runs with a small and with a large number of rounds, with and without the sampler. The difference of the two
is what the rounds themselves take, without the start of the process; the ratio is that with the sampler to that without.
Threads of the agent are not counted: under Valgrind they wake far more often for each instruction of the program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "python" / "neurogc"

PROGRAMS = {
    # A service that parses, checks, copies and answers.
    "web": (40, """
import json
class Order:
    def __init__(self, number, customer, lines):
        self.number, self.customer, self.lines = number, customer, lines
    def total(self):
        return sum(line["count"] * line["price"] for line in self.lines)
body = json.dumps({"orders": [{"number": n, "customer": f"customer {n}",
    "lines": [{"name": f"thing {n}-{k}", "count": k + 1, "price": n * 0.25} for k in range(6)]} for n in range(15)]})
recent = {}
def handle(path):
    orders = [Order(**order) for order in json.loads(body)["orders"]]
    answer = [{"number": o.number, "customer": o.customer.upper(), "total": f"{o.total():.2f}"} for o in orders]
    recent[path] = answer
    if len(recent) > 200:
        recent.clear()
    return json.dumps({"path": path, "orders": sorted(answer, key=lambda one: one["total"])}).encode()
for turn in range(ROUNDS):
    handle(f"/orders/{turn}?page={turn % 9}")
"""),
    # One coroutine awaits another, over and over: an object is made for every few instructions.
    "coroutines": (12, """
async def leaf(n):
    return n
async def twig(n):
    return await leaf(n) + await leaf(n + 1)
async def branch(n):
    return await twig(n) + await twig(n + 2)
def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
for turn in range(ROUNDS):
    for n in range(400):
        drive(branch(n))
"""),
    # Small objects of many types, most of which live on for a while.
    "objects": (12, """
class Point:
    __slots__ = ("x", "y", "label")
    def __init__(self, x, y):
        self.x, self.y, self.label = x, y, str(x)
kept = {}
for turn in range(ROUNDS):
    points = [Point(n * 1.5, n) for n in range(600)]
    kept[turn % 5] = {point.label: (point.x, [point.y]) for point in points}
"""),
    # Texts that are cut, joined and replaced.
    "texts": (20, """
words = [f"word{n}" for n in range(300)]
for turn in range(ROUNDS):
    text = " ".join(words)
    pieces = [piece.title() + "-" + piece[::-1] for piece in text.split()]
    "\\n".join(pieces).replace("Word", "w").encode().decode()
"""),
    # Buffers that native code takes from malloc.
    "buffers": (30, """
import zlib
data = bytes(range(256)) * 40
for turn in range(ROUNDS):
    parts = [bytearray(data[n:n + 3000]) for n in range(0, 6000, 100)]
    zlib.decompress(zlib.compress(data, 1))
"""),
    # Hardly any allocation: what is left is the noise of the measurement.
    "numbers": (10, """
def gaps(n):
    total = 0
    for a in range(1, n):
        for b in range(1, 40):
            total += a % b & 3
    return total
for turn in range(ROUNDS):
    gaps(120)
"""),
}


def count(python: str, code: str, rounds: int, mode: str) -> int:
    """Instructions of the main thread."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON", "LD_"))}
    own |= {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(HOME / "_inject"),
        "NEUROGC_HOME": str(HOME),
        "NEUROGC_POLICY": "observe",
        "NEUROGC_ADAPTERS": "false",
        "NEUROGC_ALLOCATIONS": mode,
    }
    if mode == "native":
        own["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    with tempfile.TemporaryDirectory(prefix="neurogc-count-") as folder:
        options = ["--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={folder}/out"]
        # Valgrind starts the interpreter itself; the loader of a virtual environment would be counted otherwise.
        command = ["valgrind", *options, python, "-c", f"ROUNDS = {rounds}\n{code}"]
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command[:6])}: {done.stderr[-2000:]}")
        [main] = Path(folder).glob("out-01")
        totals = re.search(r"^(?:totals|summary): (\d+)", main.read_text(errors="replace"), re.MULTILINE)
        if totals is None:
            raise SystemExit(f"{main} has no total")
        return int(totals[1])


def marginal(python: str, program: str, mode: str) -> int:
    """Instructions of the rounds, without the start of the process."""
    rounds, code = PROGRAMS[program]
    # The first run may compile modules of the standard library.
    count(python, code, 1, mode)
    return count(python, code, 9 * rounds, mode) - count(python, code, rounds, mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter to measure (default: this one)")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="a program (default: all)")
    parser.add_argument("--mode", action="append", choices=["python", "native"], help="default: native")
    given = parser.parse_args()
    for python in given.python or [sys.executable]:
        ratios: dict[str, list[float]] = {}
        for program in given.program or PROGRAMS:
            base = marginal(python, program, "off")
            row: dict[str, object] = {"python": python, "program": program, "instructions": base}
            for mode in given.mode or ["native"]:
                ratio = marginal(python, program, mode) / base
                ratios.setdefault(mode, []).append(ratio)
                row[mode] = round(ratio, 4)
            print(json.dumps(row), flush=True)
        for mode, found in ratios.items():
            product = 1.0
            for ratio in found:
                product *= ratio
            print(f"{python} {mode}: geometric mean {product ** (1 / len(found)):.4f}, worst {max(found):.4f}", flush=True)


if __name__ == "__main__":
    main()

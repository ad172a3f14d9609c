"""What the allocation sampler takes in memory: resident memory with it and without.

    python bench/allocation_memory.py live [--python EXE] [--objects 100000]...
    python bench/allocation_memory.py churn [--python EXE] [--minutes 60]

`live` makes so many objects and compares resident memory with them. `churn` keeps a heap of mixed sizes for so long, whose
blocks are replaced at random, at a pace that leaves most of a processor free: memory that sampled blocks split into pieces
would show as growth. Both processes of a comparison run side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python" / "neurogc"

RESIDENT = """
import sys, time, random
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""

LIVE = RESIDENT + """
kept = [{"id": n, "name": f"name {n}", "position": (n, n * 0.5)} for n in range(int(sys.argv[1]) // 5)]
time.sleep(0.5)
print(resident(), flush=True)
"""

CHURN = RESIDENT + """
random.seed(1)
def make():
    kind = random.random()
    if kind < 0.5:
        return [random.random() for _ in range(random.randrange(1, 12))]
    if kind < 0.8:
        return {n: str(n) for n in range(random.randrange(1, 9))}
    if kind < 0.97:
        return bytes(random.randrange(1, 2000))
    return bytearray(random.randrange(2000, 60_000))
kept = [make() for _ in range(60_000)]
end = time.monotonic() + float(sys.argv[1]) * 60
turn = 0
while time.monotonic() < end:
    for _ in range(600):
        kept[random.randrange(len(kept))] = make()
    turn += 1
    if turn % 500 == 0:
        # Now and then most of the heap goes, and other sizes come.
        for at in range(0, len(kept), 2):
            kept[at] = make()
    if turn % 100 == 0:
        print(resident(), flush=True)
    time.sleep(0.02)
"""


def start(python: str, code: str, argument: str, mode: str) -> subprocess.Popen:
    """A process with or without the sampler."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON", "LD_"))}
    own |= {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{HOME / '_inject'}:{HOME.parent}",
        "NEUROGC_HOME": str(HOME),
        "NEUROGC_POLICY": "observe",
        "NEUROGC_ALLOCATIONS": mode,
    }
    if mode == "native":
        own["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    return subprocess.Popen([python, "-c", code, argument], env=own, stdout=subprocess.PIPE, text=True)


def compared(python: str, code: str, argument: str) -> tuple[list[int], list[int]]:
    """What the two processes print."""
    both = [start(python, code, argument, mode) for mode in ("off", "native")]
    printed = [process.communicate()[0] for process in both]
    if any(process.returncode for process in both):
        raise SystemExit("a process failed")
    without, sampled = ([int(word) for word in text.split()] for text in printed)
    return without, sampled


def live(given: argparse.Namespace) -> None:
    """Resident memory at so many live objects."""
    for objects in given.objects or [100_000, 1_000_000, 5_000_000]:
        without, sampled = compared(given.python, LIVE, str(objects))
        added = (sampled[0] - without[0]) / 1e6
        row = {"objects": objects, "without_mb": round(without[0] / 1e6, 1), "added_mb": round(added, 2)}
        print(json.dumps(row), flush=True)


def churn(given: argparse.Namespace) -> None:
    """Resident memory over a long time."""
    without, sampled = compared(given.python, CHURN, str(given.minutes))
    parts = 6
    for part in range(parts):
        pieces = [values[len(values) * part // parts : len(values) * (part + 1) // parts] for values in (without, sampled)]
        mean = [statistics.mean(piece) / 1e6 for piece in pieces]
        minutes = round(given.minutes * (part + 1) / parts, 1)
        row = {"minutes": minutes, "without_mb": round(mean[0], 1), "sampled_mb": round(mean[1], 1)}
        print(json.dumps(row | {"ratio": round(mean[1] / mean[0], 4)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["live", "churn"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--objects", type=int, action="append")
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    {"live": live, "churn": churn}[given.part](given)


if __name__ == "__main__":
    main()

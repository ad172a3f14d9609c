"""How much of its parent's memory a worker of a DataLoader copies, with and without gc.freeze() before the fork.

    python bench/loader_copies.py [--python PYTHON] [--entries 500000] [--workers 2] [--save]

PYTHON is an interpreter with torch: that of `make training` by default. The parent keeps a dict of so many entries. Its workers
either leave it alone, or read every entry; either way they make garbage, so that collections run in them. What a worker
has copied is its private memory (`Private_Dirty`) beyond that of a worker in a parent without the dict. Counts of pages, so a
busy machine does not matter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import results

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
COLUMNS = ["workers", "contender", "of the parent's", "copied by each worker", "collections of everything in a worker"]
CONTENDERS = ["default", "frozen", "neurogc"]

PROGRAM = """
import gc, json, os, sys
import torch
way, entries, workers, reads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "reads"
class Node:
    def __init__(self):
        self.me = self
def private():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
before = private()
HUGE = {number: [number] for number in range(entries)}
grown = private() - before
full = []
gc.callbacks.append(lambda phase, info: full.append(1) if phase == "start" and info["generation"] == 2 else None)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40 * workers
    def __getitem__(self, index):
        if reads:
            for value in HUGE.values():
                value[0]
        kept = [Node() for _ in range(10_000)]
        if index // workers % 10 == 9:
            gc.collect()
        return private(), len(full)
if way == "frozen":
    gc.freeze()
full.clear()
loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=workers, multiprocessing_context="fork")
seen = list(loader)
print(json.dumps({"grown_kb": grown, "private_kb": seen[-1][0], "full": seen[-1][1]}))
"""


def main() -> None:
    """Runs every kind of worker once, and prints a table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--python", default=str(TARGET / "suite-training" / "bin" / "python"))
    asked.add_argument("--entries", type=int, default=500_000)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--save", action="store_true", help="put the rows into bench/results/loader-copies.json")
    options = asked.parse_args()
    rows = []
    for reads in ["leaves it alone", "reads"]:
        for way in CONTENDERS:
            without, with_it = (told(options, way, entries, reads) for entries in (0, options.entries))
            copied = (with_it["private_kb"] - without["private_kb"]) / 1024
            rows.append([reads, way, f"{with_it['grown_kb'] / 1024:.0f} MiB", f"{copied:.0f} MiB", str(with_it["full"])])
            print("  ".join(rows[-1]), flush=True)
    if options.save:
        command = f"python bench/loader_copies.py --entries {options.entries} --workers {options.workers} --save"
        results.save("loader-copies", command, COLUMNS, rows, keys=2, measured=results.today("PyTorch, CPU"))


def told(options: argparse.Namespace, way: str, entries: int, reads: str) -> dict:
    """What a worker has in the end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NEUROGC_"))}
    words = [options.python, "-c", PROGRAM, way, str(entries), str(options.workers), reads]
    if way == "neurogc":
        words = [str(TARGET / "fast" / "neurogc"), "run", "--", *words]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())

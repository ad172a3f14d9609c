"""What the allocation sampler costs a FastAPI service: two services live side by side, with and without it, and are asked in turn.

    python bench/allocation_service.py [--pairs 24] [--requests 1000] [--save]     needs fastapi and uvicorn, and make build

Both run under `neurogc run --policy observe`, one with `allocations=off`. A request parses JSON, builds and checks some hundred
objects, and replaces one of 20,000 records that the service keeps. The client sends one request to the one service, then one
to the other, so both see the same machine. Each pair of processes is new, because how memory happens to lie differs from
process to process by more than what is measured; its first 1,000 requests do not count. The ratio of a pair is that of its percentiles; the result is the median of
the pairs, with its 95 % bounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import results
import workloads

COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", workloads.ROOT / "target")) / "fast" / "neurogc"

APPLICATION = """
import json
from fastapi import FastAPI
from pydantic import BaseModel

class Item(BaseModel):
    number: int
    name: str
    tags: list[str]

app = FastAPI()
TEXT = json.dumps([{"number": n, "name": f"item {n}", "tags": ["a", "b", str(n)]} for n in range(120)])
records = {}
turn = 0

@app.get("/orders")
async def orders():
    global turn
    turn += 1
    items = [Item(**row) for row in json.loads(TEXT)]
    records[turn % 20_000] = {item.name: item.tags for item in items[:10]}
    return {"count": len(items), "first": items[:3]}
"""

WARM_UP = 1_000

FIGURES = ("p50", "p99", "processor time for each request")
COLUMNS = ["figure", "without", "with", "ratio", "95 % bounds of the median"]


def main() -> None:
    """Measures all pairs and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=24, help="of processes")
    parser.add_argument("--requests", type=int, default=1000, help="to each process")
    parser.add_argument("--save", action="store_true", help="also write the table of docs/memory.md")
    options = parser.parse_args()
    pairs = []
    for number in range(options.pairs):
        pairs.append(pair(options.requests, first=number % 2))
        print("  ".join(f"{with_ / without:.3f}" for without, with_ in zip(*pairs[-1])), flush=True)
    rows = [row(name, [(without[at], with_[at]) for without, with_ in pairs]) for at, name in enumerate(FIGURES)]
    for each in [COLUMNS, *rows]:
        print(" | ".join(each))
    if options.save:
        measured = results.today(f"{options.pairs} pairs of {options.requests:,} requests")
        results.save("allocation-service", "python bench/allocation_service.py", COLUMNS, rows, keys=1, measured=measured)


def pair(count: int, first: int) -> list[tuple[float, ...]]:
    """The figures of a service without the sampler and of one with it, in microseconds; `first` is the one that starts first."""
    words = [[str(COMMAND), "run", "--policy", "observe", "--set", f"allocations={mode}", "--"] for mode in ("off", "native")]
    servers = {which: workloads.Server(APPLICATION, "/orders", under=words[which]) for which in (first, 1 - first)}
    try:
        for which in (0, 1):
            servers[which].ask(WARM_UP)
        before = [servers[which].processor_seconds() for which in (0, 1)]
        times: list[list[float]] = [[], []]
        for index in range(count):
            for which in (0, 1) if index % 2 else (1, 0):
                times[which].append(servers[which].ask_once())
        used = [servers[which].processor_seconds() - before[which] for which in (0, 1)]
    finally:
        for server in servers.values():
            server.stop()
    found = [statistics.quantiles(each, n=100) for each in times]
    return [(1e6 * found[which][49], 1e6 * found[which][98], 1e6 * used[which] / count) for which in (0, 1)]


def row(name: str, values: list[tuple[float, float]]) -> list[str]:
    """One row of the table: medians, and bounds by the binomial distribution."""
    ratios = sorted(with_ / without for without, with_ in values)
    ratio = statistics.median(ratios)
    aside = max(0, round((len(ratios) - 1.96 * len(ratios) ** 0.5) / 2) - 1)
    without, with_ = (statistics.median(side) for side in zip(*values))
    return [name, f"{without:.0f} µs", f"{with_:.0f} µs", results.bold(f"{ratio:.3f}", ratio > 1.01),
            f"{ratios[aside]:.3f} to {ratios[-1 - aside]:.3f}"]


if __name__ == "__main__":
    main()

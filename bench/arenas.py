"""What huge pages for arenas cost in memory and in time, beside ordinary ones.

    python bench/arenas.py [--rounds 5] [--only idle,fastapi,…] [--warm MB] [--json FILE]

Each case runs in a process of its own, with and without them in turns. Memory: an idle process, a FastAPI application
after 200 requests, heaps of 20, 50 and 500 MB, and one of a million objects of which 90 % are freed at random. Time: what each
of many small steps of a program takes that allocates all the time, while its heap grows by a gigabyte in a second or two,
while it grows by 20 MB in a second, while it stays as large; and what a piece of work takes that needs 20 MB for itself.
With `--warm`, so much memory is used and freed before each process: a virtual machine may have given it to its host.
Needs the package on the path: `PYTHONPATH=python python bench/arenas.py`.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path


def smaps(name):
    """A sum over the mappings of this process, in MB."""
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024 / 1e6


def idle():
    return None


def fastapi():
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "apps"))
    import asyncio

    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/things/{number}")
    def thing(number: int, words: str = ""):
        return {"number": number, "words": words}

    async def ask():
        scope = {"type": "http", "method": "GET", "path": "/things/7", "query_string": b"words=some", "headers": []}
        scope |= {"http_version": "1.1", "scheme": "http", "root_path": "", "raw_path": b"/things/7"}

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            pass

        for _ in range(200):
            await app(dict(scope), receive, send)

    asyncio.run(ask())
    return app


def plain(megabytes):
    return [[number] for number in range(megabytes * 8192)]


def fragmented():
    data = [{"number": number, "list": [number]} for number in range(1_000_000)]
    for at in random.Random(1).sample(range(len(data)), 900_000):
        data[at] = None
    return data


def steps(grow, count=40_000, pause=0.0):
    """The time of each step, in µs: 400 objects made, and as many freed once the heap is not to grow any more."""
    ring, at, took = [], 0, []
    limit = count if grow else 4_000
    if not grow:
        ring = [[[number] for number in range(400)] for _ in range(limit)]
    order = random.Random(1)
    for _ in range(count):
        time.sleep(pause)
        began = time.perf_counter_ns()
        made = [[number] for number in range(400)]
        if len(ring) < limit:
            ring.append(made)
        else:
            at = order.randrange(limit)
            ring[at] = made
        took.append((time.perf_counter_ns() - began) / 1e3)
    ring.clear()
    return told(took)


def told(took):
    took.sort()
    share = lambda part: took[min(len(took) - 1, int(len(took) * part))]  # noqa: E731
    return {
        "p50_us": share(0.5), "p99_us": share(0.99), "p99.9_us": share(0.999), "p99.99_us": share(0.9999),
        "max_us": took[-1], "over_1ms": sum(1 for one in took if one > 1e3), "sum_ms": sum(took) / 1e3,
    }  # fmt: skip


def bursts():
    """The time of each of 100 pieces of work that need 20 MB and free them, in µs."""
    base, took = plain(50), []
    for _ in range(100):
        time.sleep(0.02)
        began = time.perf_counter_ns()
        plain(20)
        took.append((time.perf_counter_ns() - began) / 1e3)
    took.sort()
    del base
    return {"p50_us": took[50], "p90_us": took[90], "max_us": took[-1]}


def flights():
    """The time of each step while a snapshot is taken every two seconds: what copies, and mending after them, cost."""
    import neurogc

    agent = neurogc._native.agent
    ring = [[[number] for number in range(400)] for _ in range(5_000)]
    order, took, clones, until = random.Random(1), [], [], time.perf_counter() + 12
    due = 0.0
    while time.perf_counter() < until:
        time.sleep(0.0005)
        began = time.perf_counter_ns()
        ring[order.randrange(len(ring))] = [[number] for number in range(400)]
        took.append((time.perf_counter_ns() - began) / 1e3)
        word = agent.snapshot_look()[0]
        if word == "ready":
            agent.snapshot_reap(1.0, True)
        elif word == "idle" and time.perf_counter() > due:
            due = time.perf_counter() + 2
            agent.snapshot_launch()
            clones.append(agent.snapshot_figures()["clone_max_ms"])
    return told(took) | {"clone_p50_ms": agent.snapshot_figures()["clone_p50_ms"], "clone_max_ms": max(clones)}


CASES = {
    "idle": idle,
    "fastapi": fastapi,
    "20 MB": lambda: plain(20),
    "50 MB": lambda: plain(50),
    "500 MB": lambda: plain(500),
    "fragmented": fragmented,
    "growing": lambda: steps(True),
    "slowly": lambda: steps(True, 8_000, 0.001),
    "bursts": bursts,
    "flights": flights,
    "steady": lambda: steps(False),
}


def warm(megabytes):
    """Has so much memory in huge pages for a moment."""
    with mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, megabytes << 20, 4096):
            memory[at] = 1


def measure(case, huge):
    import neurogc

    neurogc.install(policy="threshold:700,10,10", adapters=False, huge_arenas=huge, growth_percent=1000)
    gc.disable()
    outcome = CASES[case]()
    figures = {"rss_mb": smaps("Rss"), "huge_mb": smaps("AnonHugePages")}
    if isinstance(outcome, dict):
        figures |= outcome
    elif isinstance(outcome, list):
        outcome.clear()
        figures["freed_rss_mb"] = smaps("Rss")
    # What is done for the pages beside the program is done by then.
    time.sleep(3)
    figures["settled_rss_mb"] = smaps("Rss")
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--warm", type=int, default=0, metavar="MB")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--huge", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        json.dump(measure(options.one, options.huge == "on"), sys.stdout)
        return
    results = {}
    print(f"Python {sys.version.split()[0]}; medians of {options.rounds} rounds, worst in brackets")
    for case in options.only.split(","):
        rows = {"off": [], "on": []}
        for _ in range(options.rounds):
            for huge, of in rows.items():
                if options.warm:
                    warm(options.warm)
                command = [sys.executable, __file__, "--one", case, "--huge", huge]
                of.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        results[case] = rows
        for huge, of in rows.items():
            words = []
            for name in of[0]:
                values = [row[name] for row in of]
                words.append(f"{name} {statistics.median(values):.1f} ({max(values):.1f})")
            print(f"{case:>12} {huge:>4}: {', '.join(words)}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()

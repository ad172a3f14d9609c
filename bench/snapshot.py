"""What a snapshot costs beside `gc.collect()`, on the same heap, in turns.

    python bench/snapshot.py [--objects 0.2,1,5] [--garbage 30000] [--rounds 7] [--writes all] [--huge on,off] [--json FILE]

For each heap, in a process of its own: how long the program stands still for the clone and for a slice of freeing, how
long the flight takes, and what the walk takes for itself; and the ratio to the pause of a full collection in the same
round. With `--writes` a thread changes objects during flights, and what it loses to copies is told: `all` over the heap,
or those on every twentieth page (`hot`). `--huge` says whether arenas are put into huge pages; what of the heap is in
huge pages at the clone is told.
Needs the package on the path: `PYTHONPATH=python python bench/snapshot.py`.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import random
import statistics
import subprocess
import sys
import threading
import time


class Record:
    """Three objects in all: itself, its dict or values, and a list."""

    def __init__(self, number):
        self.number = number
        self.tags = [number]


def heap(objects):
    """So many tracked objects in the mixture of a service's caches."""
    gc.disable()
    live, count = [], 0
    before = len(gc.get_objects())
    while count < objects:
        live.append((Record(count), {"name": str(count), "of": [count]}))
        if len(live) % 10_000 == 0:
            count = len(gc.get_objects()) - before
    random.Random(1).shuffle(live)
    return live


def make_garbage(count, live):
    """Cycles of three, some beside each other and some between the living."""
    for index in range(count // 6):
        one, other = Record(index), Record(index)
        one.other, other.other = other, one
        if index % 3 == 0:
            live[index % len(live)][1]["of"] = [index]


class Writer(threading.Thread):
    """Changes objects everywhere and counts how many it managed."""

    def __init__(self, live, which):
        super().__init__(daemon=True)
        if which == "hot":
            live = [pair for pair in live if (id(pair[0]) >> 12) % 20 == 0]
        self.live, self.done, self.stop = live, 0, False

    def run(self):
        rng, live = random.Random(2), self.live
        while not self.stop:
            for _ in range(200):
                live[rng.randrange(len(live))][0].number += 1
            self.done += 200


def measure(objects, garbage, rounds, writes, huge, rest):
    """Rounds of both methods, in turns."""
    import neurogc

    # A policy that acts, or there would be no huge pages, but one that gives no orders while collection is disabled,
    # and guards that let the heap grow.
    neurogc.install(policy="threshold:700,10,10", adapters=False, huge_arenas=huge, growth_percent=1000)
    agent = neurogc._native.agent
    live = heap(objects)
    gc.collect()
    rows = []
    for _ in range(rounds):
        make_garbage(garbage, live)
        began = time.perf_counter()
        freed_full = gc.collect()
        full = time.perf_counter() - began
        make_garbage(garbage, live)
        writer = Writer(live, writes) if writes else None
        quiet_rate = 0.0
        if writer:
            writer.start()
            time.sleep(0.5)
            quiet_rate = writer.done / 0.5
        in_huge_pages = smaps("AnonHugePages")
        held = group()
        done_before, began = (writer.done if writer else 0), time.perf_counter()
        agent.snapshot_launch()
        launch = time.perf_counter() - began
        most = held
        while agent.snapshot_look()[0] in ("in flight", "busy"):
            most = max(most, group())
            time.sleep(0.001)
        flight_s = time.perf_counter() - began
        lost = rate = 0.0
        if writer:
            rate = (writer.done - done_before) / flight_s / 1e3
            lost = max(0.0, flight_s - (writer.done - done_before) / quiet_rate)
            writer.stop = True
            writer.join()
        slices, freed = [], 0
        # It is busy while the conductor looks at it.
        while agent.snapshot_look()[0] in ("ready", "busy"):
            part = agent.snapshot_reap(2.0, True)
            slices.append(part[4] / 1e6)
            freed += part[0]
        latest = agent.snapshot_figures()["latest"]
        assert not agent.snapshot_figures()["failed"], agent.snapshot_figures()
        rows.append(
            {
                "full_ms": full * 1e3,
                "launch_ms": launch * 1e3,
                "clone_ms": latest["clone_ns"] / 1e6,
                "flight_ms": latest["flight_ns"] / 1e6,
                "steps_ms": [step / 1e6 for step in latest["steps_ns"]],
                "slice_p50_ms": statistics.median(slices) if slices else 0.0,
                "slice_max_ms": max(slices, default=0.0),
                "reap_ms": sum(slices),
                "freed": freed,
                "freed_full": freed_full,
                "walk_mb": latest["own_bytes"] / 1e6,
                "copied_mb": latest["faults"] * 4096 / 1e6,
                "lost_ms": lost * 1e3,
                "writes_per_ms": rate,
                "tracked": latest["tracked"],
                "rss_mb": smaps("Rss"),
                "huge_mb": in_huge_pages,
                "group_peak_mb": most - held,
                "group_after_mb": group() - held,
            }
        )
        del writer
        # Broken pages are mended meanwhile, as they would be before the next flight of a service.
        time.sleep(rest)
    return rows


def group():
    """What the control group of this process holds, in MB: of use where it has one of its own."""
    with open("/proc/self/cgroup") as lines:
        groups = {tuple(line.split(":")[1:2]): line.rstrip().split(":")[2] for line in lines}
    paths = [f"/sys/fs/cgroup/memory{groups.get(('memory',))}/memory.usage_in_bytes", f"/sys/fs/cgroup{groups.get(('',))}/memory.current"]
    for path in paths:
        try:
            with open(path) as file:
                return int(file.read()) / 1e6
        except OSError:
            pass
    return 0.0


def smaps(name):
    """A sum over the mappings of this process, in MB."""
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", default="0.2,1,5", help="millions of live tracked objects")
    parser.add_argument("--garbage", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--writes", choices=("all", "hot"))
    parser.add_argument("--huge", default="on", help="on, off, or both with a comma between")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds between rounds")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        huge = options.huge == "on"
        rows = measure(options.one, options.garbage, options.rounds, options.writes, huge, options.rest)
        json.dump(rows, sys.stdout)
        return
    results = {}
    print(f"Python {sys.version.split()[0]}; medians of {options.rounds} rounds, worst in brackets; ms and MB")
    head = ["objects", "RSS", "huge", "full", "pause", "full/pause", "clone", "flight", "slice", "reap"]
    head += ["walk's MB", "copied MB", "grown", "stays", "lost", "writes/ms"]
    print("".join(f"{word:>16}" for word in head))
    for size, huge in itertools.product(options.objects.split(","), options.huge.split(",")):
        objects = int(float(size) * 1e6)
        command = [sys.executable, __file__, "--one", str(objects), "--garbage", str(options.garbage)]
        command += ["--rounds", str(options.rounds), "--huge", huge, "--rest", str(options.rest)]
        command += ["--writes", options.writes] if options.writes else []
        rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        results[f"{size} huge {huge}"] = rows

        def told(name, rows=rows):
            values = [row[name] for row in rows]
            return f"{statistics.median(values):.1f} ({max(values):.1f})"

        longest = [max(row["launch_ms"], row["slice_max_ms"]) for row in rows]
        ratio = statistics.median(row["full_ms"] / long for row, long in zip(rows, longest))
        words = [
            f"{rows[-1]['tracked'] / 1e6:.2f} M", told("rss_mb"), told("huge_mb"), told("full_ms"), told("launch_ms"), f"{ratio:.0f}",
            told("clone_ms"), told("flight_ms"), told("slice_max_ms"), told("reap_ms"), told("walk_mb"), told("copied_mb"),
            told("group_peak_mb"), told("group_after_mb"), told("lost_ms"), told("writes_per_ms"),
        ]  # fmt: skip
        print("".join(f"{word:>16}" for word in words), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()

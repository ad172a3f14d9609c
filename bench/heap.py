"""What a heap dump costs: the pause, the flight, and bytes per object, for heaps as built and shuffled.

    python bench/heap.py [--objects 1000000,5000000,10000000] [--shuffled] [--runs 3] [--huge]

Run it on a quiet machine, with `python/` on PYTHONPATH. Each size runs in a process of its own.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time


class Order:
    """What a shop might have: attributes, lists, dicts and texts."""

    def __init__(self, number):
        self.number = number
        self.items = [number * 1000 + 500_000, number * 1000 + 500_001]
        self.customer = {"name": f"customer {number}", "city": f"city {number % 997}"}
        self.note = f"note of order {number}"


# Objects of one order: the order, its list, its dict, three texts, three integers.
PER_ORDER = 9


def build(objects, shuffled):
    """A heap of about so many objects. Shuffled: half of it was freed and made again in random order."""
    orders = [Order(number) for number in range(objects // PER_ORDER)]
    if shuffled:
        chance = random.Random(1)
        chance.shuffle(orders)
        half = len(orders) // 2
        for number in chance.sample(range(len(orders)), half):
            orders[number] = None
        for number, order in enumerate(orders):
            if order is None:
                orders[number] = Order(number)
        for order in orders:
            order.others = [orders[chance.randrange(len(orders))] for _ in range(6)]
    return orders


def one(objects, shuffled, huge):
    """Measures in this process, and prints the figures as JSON."""
    import neurogc

    neurogc.install(policy="auto" if huge else "observe", adapters=False)
    gc.disable()
    kept = build(objects, shuffled)
    time.sleep(2 if huge else 0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.ngch")
        began = time.perf_counter()
        figures = neurogc.heap.dump(path)
        figures["whole_ms"] = (time.perf_counter() - began) * 1e3
        began = time.perf_counter()
        neurogc.heap.count()
        figures["count_ms"] = (time.perf_counter() - began) * 1e3
    figures["rss_mb"] = int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
    assert kept
    print(json.dumps(figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--objects", default="1000000,5000000,10000000")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--huge", action="store_true", help="small objects on huge pages, as under the policy auto")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.objects.split(",")]
    if options.one:
        return one(sizes[0], options.shuffled, options.huge)
    print("| objects | order | pause ms | flight s | file | bytes per object | count s |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        command = [sys.executable, __file__, "--one", "--objects", str(size)]
        command += ["--shuffled"] * options.shuffled + ["--huge"] * options.huge
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(options.runs)]
        best = {name: min(run[name] for run in runs) for name in runs[0]}
        most = max(run["pause_ms"] for run in runs)
        print(
            f"| {best['objects'] / 1e6:.2f} M | {'shuffled' if options.shuffled else 'as built'} | "
            f"{best['pause_ms']:.1f} to {most:.1f} | {best['flight_ms'] / 1e3:.2f} | {best['bytes'] / 1e6:.0f} MB | "
            f"{best['bytes'] / best['objects']:.1f} | {best['count_ms'] / 1e3:.2f} |"
        )


if __name__ == "__main__":
    main()

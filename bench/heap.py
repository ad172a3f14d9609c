"""What a heap dump costs: the pause, the flight, and bytes per object, for heaps as built and shuffled.

    python bench/heap.py [--objects 1000000,5000000,10000000] [--shuffled] [--runs 3] [--huge]
    python bench/heap.py --service [--objects 5000000] [--rate 150] [--seconds 15] [--runs 4] [--huge]

`--service` measures the latency of a service under load, with one dump after the other and without, in turn. Its client is an open
loop (crates/load, example `open_loop`). Run it on a quiet machine, with `python/` on PYTHONPATH. Each size runs in a process of
its own.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import subprocess
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

BUILT = Path(__file__).resolve().parent.parent / "target" / "fast"


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


WORK_MS = 2.0
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"


async def answer(orders, reader, writer):
    """A connection: each request takes some milliseconds, reads orders and replaces some."""
    chance = random.Random(2)
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        until = time.thread_time() + WORK_MS / 1e3
        while time.thread_time() < until:
            number = chance.randrange(len(orders))
            orders[number] = Order(orders[number].number)
        writer.write(ANSWER)
    writer.close()


async def listen(orders):
    """Serves until the process is ended. The port is the first line of the output."""
    server = await asyncio.start_server(lambda *ends: answer(orders, *ends), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def serve(objects, shuffled, huge):
    """The service."""
    import neurogc

    neurogc.install(policy="auto" if huge else "observe", adapters=False)
    orders = build(objects, shuffled)
    gc.freeze()
    asyncio.run(listen(orders))


def load(port, rate, seconds):
    """What the client measures, in milliseconds."""
    words = [str(BUILT / "examples" / "open_loop"), str(port), str(rate), str(seconds), "/"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert not found["failures"] + found["unanswered"], found
    return found["latency"]


def dumping(pid, folder, ended, done):
    """Takes one dump after the other."""
    path = os.path.join(folder, "heap.ngch")
    while not ended.is_set():
        words = [str(BUILT / "neurogc"), "heap", "dump", str(pid), "-o", path]
        subprocess.run(words, check=True, capture_output=True)
        done.append(path)
        os.unlink(path)


def service(options, objects):
    """One service, with dumps and without, in turn."""
    command = [sys.executable, __file__, "--serve", "--objects", str(objects)]
    command += ["--shuffled"] * options.shuffled + ["--huge"] * options.huge
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    rows = []
    try:
        port = int(process.stdout.readline())
        load(port, options.rate, 5)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.runs):
                without = load(port, options.rate, options.seconds)
                ended, dumps = threading.Event(), []
                beside = threading.Thread(target=dumping, args=(process.pid, folder, ended, dumps))
                beside.start()
                rows.append((without, load(port, options.rate, options.seconds), len(dumps)))
                ended.set()
                beside.join()
    finally:
        process.kill()
    print(f"{objects / 1e6:.1f} M objects, {options.rate} requests/s; ms without and with one dump after the other")
    for without, during, dumps in rows:
        cells = [f"{name[:-3]} {without[name]:.2f} {during[name]:.2f}" for name in ("p50_ms", "p99_ms", "p999_ms")]
        print(", ".join([*cells, f"{dumps} dumps"]))
    ratios = [during["p999_ms"] / without["p999_ms"] for without, during, _ in rows]
    print(f"p99.9 with ÷ without: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--objects", default="1000000,5000000,10000000")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--huge", action="store_true", help="small objects on huge pages, as under the policy auto")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--service", action="store_true", help="the latency of a service while it is dumped")
    parser.add_argument("--rate", type=float, default=150, help="requests a second, with --service")
    parser.add_argument("--seconds", type=float, default=15, help="of each load, with --service")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.objects.split(",")]
    if options.serve:
        return serve(sizes[0], options.shuffled, options.huge)
    if options.service:
        for size in sizes:
            service(options, size)
        return None
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

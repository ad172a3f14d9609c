"""What a heap dump costs: the pause, the flight, and bytes per object, for heaps as built and shuffled.

    python bench/heap.py [--objects 1000000,5000000,10000000] [--shuffled] [--runs 3] [--pages gathered] [--pyheap FOLDER]
    python bench/heap.py --service [--objects 5000000] [--rate 150] [--seconds 15] [--runs 4] [--pages huge] [--rest 2]

`--pages`: `huge` is what the policy auto has from the beginning, `gathered` are small pages that the agent puts together before each dump,
as under `observe` with `gather_pages=true`, `small` are such that it leaves alone. `--service` measures the latency of a service under load, with dumps and without, in turn. Its client is an open loop (crates/load,
example `open_loop`). `--save` puts the results into the tables of docs/benchmarks.md; memory is a table of its own, `heap-memory`. Where guppy3 is installed, its count by type is
measured on the same heap. `--pyheap FOLDER` measures PyHeap, too, from a checkout of github.com/ivanyu/pyheap (it is in no package
index, and needs gdb, pyelftools, tqdm and CPython up to 3.12): choose few objects, it is slow. Run it on a quiet machine, with `python/` on
PYTHONPATH. Each size runs in a process of its own.
"""

import argparse
import asyncio
import contextlib
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

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "target" / "fast"
sys.path.insert(0, str(HERE))

import results  # noqa: E402


# What the agent is installed with, for each kind of pages, and how the tables call them.
PAGES = {
    "huge": {"policy": "auto"},
    "gathered": {"policy": "observe", "gather_pages": "true"},
    "small": {"policy": "observe", "huge_arenas": "false"},
}
LABELS = {"huge": "huge", "gathered": "4 KiB, put together first", "small": "4 KiB"}


# Bars, where there is one: what a clone that counts may add for five million objects, and `heap show` for each object.
MOST_COUNT_MB = 40
MOST_SHOW_BYTES = 100


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


def pyheap(checkout, folder):
    """How long PyHeap takes to dump this process, which stands still meanwhile, and for all retained sizes, in milliseconds."""
    path = os.path.join(folder, "heap.pyheap")
    figures = {}
    for name, words in {
        "pyheap_dump_ms": ["pyheap/src/pyheap_dump.py", "--pid", str(os.getpid()), "--file", path],
        "pyheap_show_ms": ["pyheap-ui/src/analyzer.py", "retained-heap", "--file", path],
    }.items():
        began = time.perf_counter()
        with open(os.path.join(folder, "pyheap.log"), "wb") as log:
            process = subprocess.Popen([sys.executable, os.path.join(checkout, words[0]), *words[1:]], stdout=log, stderr=log)
        # gdb waits until C code calls a function of Python's.
        while process.poll() is None:
            list(map(lambda _: time.sleep(0.01), [None]))
        if process.returncode or not os.path.exists(path):
            raise SystemExit(Path(folder, "pyheap.log").read_text()[-2000:])
        figures[name] = (time.perf_counter() - began) * 1e3
    figures["pyheap_bytes"] = os.path.getsize(path)
    return figures


class CloneMemory:
    """The most memory that clones of this process have had for themselves: private pages, and those shared with it alone."""

    def __init__(self):
        self.most = 0
        self.looks = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.wait(0.001):
            for name in os.listdir("/proc/self/task"):
                with contextlib.suppress(OSError):
                    with open(f"/proc/self/task/{name}/children") as children:
                        for pid in children.read().split():
                            self._look(pid)

    def _look(self, pid):
        kilobytes = 0
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            kilobytes += sum(int(line.split()[1]) for line in rollup if line.startswith(("Private_Clean:", "Private_Dirty:")))
        # Where it puts what it found.
        with open(f"/proc/{pid}/smaps") as maps:
            is_shared = False
            for line in maps:
                if "-" in line.split(" ", 1)[0]:
                    is_shared = "/dev/zero (deleted)" in line
                elif is_shared and line.startswith(("Shared_Clean:", "Shared_Dirty:")):
                    kilobytes += int(line.split()[1])
        self.looks += 1
        self.most = max(self.most, kilobytes * 1024)


# A process that is replaced by another program leaves it its own largest resident set, so a small one starts the command.
TIMED = """
import json, os, sys, time
began = time.perf_counter()
nothing = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 1)])
_, status, used = os.wait4(pid, 0)
assert status == 0, status
print(json.dumps({"show_ms": (time.perf_counter() - began) * 1e3, "show_bytes": used.ru_maxrss * 1024}))
"""


def one(objects, shuffled, pages, checkout):
    """Measures in this process, and prints the figures as JSON."""
    import neurogc

    neurogc.install(adapters=False, **PAGES[pages])
    gc.disable()
    kept = build(objects, shuffled)
    time.sleep(2 if pages == "huge" else 0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.ngch")
        began = time.perf_counter()
        figures = neurogc.heap.dump(path)
        figures["whole_ms"] = (time.perf_counter() - began) * 1e3
        began = time.perf_counter()
        neurogc.heap.count()
        figures["count_ms"] = (time.perf_counter() - began) * 1e3
        # Looking at a clone holds it up, so its memory is that of another one.
        with CloneMemory() as clone:
            neurogc.heap.count()
        assert clone.looks, "the clone could not be looked at"
        figures["count_bytes"] = clone.most
        words = [sys.executable, "-S", "-c", TIMED, str(BUILT / "neurogc"), "heap", "show", path]
        figures |= json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        if checkout:
            figures |= pyheap(checkout, folder)
    with contextlib.suppress(ImportError):
        from guppy import hpy

        began = time.perf_counter()
        hpy().heap()
        figures["guppy_ms"] = (time.perf_counter() - began) * 1e3
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


def serve(objects, shuffled, pages):
    """The service."""
    import neurogc

    neurogc.install(adapters=False, **PAGES[pages])
    orders = build(objects, shuffled)
    gc.freeze()
    asyncio.run(listen(orders))


def load(port, rate, seconds):
    """What the client measures, in milliseconds."""
    words = [str(BUILT / "examples" / "open_loop"), str(port), str(rate), str(seconds), "/"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert not found["failures"] + found["unanswered"], found
    return found["latency"]


def dumping(pid, folder, ended, done, rest):
    """Takes one dump after the other, with a rest in between."""
    path = os.path.join(folder, "heap.ngch")
    while not ended.is_set():
        words = [str(BUILT / "neurogc"), "heap", "dump", str(pid), "-o", path]
        subprocess.run(words, check=True, capture_output=True)
        done.append(path)
        os.unlink(path)
        ended.wait(rest)


def service(options, objects):
    """One service, with dumps and without, in turn."""
    command = [sys.executable, __file__, "--serve", "--objects", str(objects)]
    command += ["--shuffled"] * options.shuffled + ["--pages", options.pages]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    rows = []
    try:
        port = int(process.stdout.readline())
        load(port, options.rate, 5)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.runs):
                without = load(port, options.rate, options.seconds)
                ended, dumps = threading.Event(), []
                beside = threading.Thread(target=dumping, args=(process.pid, folder, ended, dumps, options.rest))
                beside.start()
                rows.append((without, load(port, options.rate, options.seconds), len(dumps)))
                ended.set()
                # A dump needs a thread that runs Python code.
                while beside.is_alive():
                    load(port, options.rate, 1)
    finally:
        process.kill()
    print(f"{objects / 1e6:.1f} M objects, {options.rate} requests/s; ms without dumps and with them")
    for without, during, dumps in rows:
        cells = [f"{name[:-3]} {without[name]:.2f} {during[name]:.2f}" for name in ("p50_ms", "p99_ms", "p999_ms")]
        print(", ".join([*cells, f"{dumps} dumps"]))
    ratios = [during["p999_ms"] / without["p999_ms"] for without, during, _ in rows]
    ratio = statistics.median(ratios)
    print(f"p99.9 with ÷ without: median {ratio:.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    middle = [statistics.median(row[which]["p999_ms"] for row in rows) for which in (0, 1)]
    pages = LABELS[options.pages]
    every = options.seconds * options.runs / max(1, sum(row[2] for row in rows))
    return [f"{objects / 1e6:.0f} M", pages, f"{every:.1f} s", f"{middle[0]:.1f} ms", f"{middle[1]:.1f} ms", results.bold(f"{ratio:.2f}", ratio > 1.3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--objects", default="1000000,5000000,10000000")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--pages", choices=PAGES, default="huge", help="what small objects lie in")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--service", action="store_true", help="the latency of a service while it is dumped")
    parser.add_argument("--rate", type=float, default=150, help="requests a second, with --service")
    parser.add_argument("--seconds", type=float, default=15, help="of each load, with --service")
    parser.add_argument("--rest", type=float, default=2, help="seconds between dumps, with --service")
    parser.add_argument("--save", action="store_true", help="put the results into the tables of docs/benchmarks.md")
    parser.add_argument("--pyheap", metavar="FOLDER", help="a checkout of PyHeap, which is measured on the same heap")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.objects.split(",")]
    if options.serve:
        return serve(sizes[0], options.shuffled, options.pages)
    if options.service:
        rows = [service(options, size) for size in sizes]
        if options.save:
            columns = ["objects", "pages", "one dump in", "p99.9 without", "p99.9 with", "ratio"]
            results.save("heap-service", "python bench/heap.py --service --save", columns, rows, keys=3, measured=results.today())
        return None
    if options.one:
        return one(sizes[0], options.shuffled, options.pages, options.pyheap)
    columns = ["objects", "order", "pages", "pause", "dump", "bytes per object on disk", "count by type", "`heap show`", "guppy3's count"]
    other = ["objects", "dump", "PyHeap's dump", "all retained sizes", "PyHeap's", "bytes per object", "PyHeap's"]
    memory = ["objects", "order", "pages", "a clone that counts", "`heap show`, bytes per object"]
    rows, beside, kept = [], [], []
    for size in sizes:
        command = [sys.executable, __file__, "--one", "--objects", str(size)]
        command += ["--shuffled"] * options.shuffled + ["--pages", options.pages]
        command += ["--pyheap", options.pyheap] if options.pyheap else []
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(options.runs)]
        least, most = ({name: which(run[name] for run in runs) for name in runs[0]} for which in (min, max))
        seconds = lambda name: f"{least[name] / 1e3:.2f} to {most[name] / 1e3:.2f} s"  # noqa: E731
        rows.append([
            f"{size / 1e6:.0f} M", "shuffled" if options.shuffled else "as built", LABELS[options.pages],
            f"{least['pause_ms']:.1f} to {most['pause_ms']:.1f} ms", seconds("whole_ms"),
            f"{least['bytes'] / least['objects']:.1f}", seconds("count_ms"), seconds("show_ms"),
            seconds("guppy_ms") if "guppy_ms" in least else "–",
        ])
        print(", ".join(f"{column} {cell}" for column, cell in zip(columns, rows[-1])), flush=True)
        count, show = most["count_bytes"] / 1e6, max(run["show_bytes"] / run["objects"] for run in runs)
        kept.append([
            *rows[-1][:3], results.bold(f"+{count:.1f} MB", count > MOST_COUNT_MB * max(1, size / 5e6)),
            results.bold(f"{show:.0f}", show > MOST_SHOW_BYTES),
        ])
        print(", ".join(f"{column} {cell}" for column, cell in zip(memory, kept[-1])), flush=True)
        if options.pyheap:
            beside.append([
                f"{size / 1e6:g} M", seconds("whole_ms"), seconds("pyheap_dump_ms"), seconds("show_ms"), seconds("pyheap_show_ms"),
                f"{least['bytes'] / least['objects']:.1f}", f"{least['pyheap_bytes'] / least['objects']:.1f}",
            ])
            print(", ".join(f"{column} {cell}" for column, cell in zip(other, beside[-1])), flush=True)
    if options.save:
        if beside:
            results.save("heap-pyheap", "python bench/heap.py --pyheap FOLDER --save", other, beside, keys=1, measured=results.today())
            return None
        results.save("heap", "python bench/heap.py --save", columns, rows, keys=3, measured=results.today())
        results.save("heap-memory", "python bench/heap.py --save", memory, kept, keys=3, measured=results.today())
    return None


if __name__ == "__main__":
    main()

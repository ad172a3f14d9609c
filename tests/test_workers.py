"""Forked workers: what they share with their parent, have copied and have allocated, against what the kernel counts."""

import os
import struct
import sys
import time
from pathlib import Path

import pytest
from observed import TOLD_BY_LINES, Running, ask, eventually, neurogc, socket_path
from service import Service

BINARY = os.environ.get("NEUROGC_BIN")

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not BINARY, reason="NEUROGC_BIN does not name the built command"),
]

PAGE = os.sysconf("SC_PAGE_SIZE")

# Pools of two workers in all. The first is told to read a part of what it inherits, which writes reference counts, and to allocate.
POOL = TOLD_BY_LINES + """
import mmap, multiprocessing, os, sys, time
VOCAB = {number: f"word {number}" for number in range(400_000)}
TABLE = bytearray(80 << 20)
for at in range(0, len(TABLE), 4096):
    TABLE[at] = 1
RESERVED = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE)    # The kernel gives pages when they are written to.
kept = []
def work(task):
    what, size = task
    if what == "read":
        for number in range(size):
            VOCAB[number]
    elif what == "write":
        TABLE[: size << 20] = bytes(size << 20)
    elif what == "allocate":
        kept.append([bytes(200) for _ in range(size * 4000)])
    elif what == "fill":
        for at in range(0, size << 20, 4096):
            RESERVED[at] = 2
    return os.getpid()
context = multiprocessing.get_context("fork")
pools = [context.Pool(1) for _ in range(2)]
print("workers", *[pool.apply(work, (("nothing", 0),)) for pool in pools], flush=True)
for line in lines():
    number, what, size = line.split()
    pools[int(number)].apply(work, ((what, int(size)),))
    print("done", flush=True)
for pool in pools:
    pool.terminate()
    pool.join()
"""


class Pool:
    """The program above."""

    def __init__(self, running):
        self.running, self.pid = running, running.pid
        self.workers = [int(word) for word in running.line().split()[1:]]
        assert eventually(socket_path(self.pid).exists)

    def tell(self, *words):
        self.running.say(" ".join(map(str, words)))
        assert self.running.line() == "done"

    def report(self):
        return neurogc("memory", self.pid, "--children", "--json")

    def worker(self, number, report=None):
        children = (report or self.report())["children"]
        return next(child for child in children if child["pid"] == self.workers[number])


@pytest.fixture
def pool():
    with Running(POOL, within=60) as running:
        yield Pool(running)


def rollup(pid, name):
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name + ":"))


def pages(pid):
    """Pages of private mappings by address: their number in memory, and whether no other process has them."""
    found = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in maps:
            span, access, *_ = line.split()
            if access[3] != "p":
                continue
            first, last = (int(end, 16) // PAGE for end in span.split("-"))
            if first >= 1 << 47 - 12:
                continue
            data = os.pread(pagemap.fileno(), (last - first) * 8, first * 8)
            for page, (entry,) in enumerate(struct.iter_unpack("<Q", data), first):
                # Present, and not of a file.
                if entry >> 63 & 1 and not entry >> 61 & 1:
                    found[page] = (entry & (1 << 55) - 1, bool(entry >> 56 & 1))
    return found


def copied_by_pagemap(parent, worker):
    """What the worker has for itself at addresses at which its parent has something else."""
    of_parent = pages(parent)
    return PAGE * sum(alone and of_parent.get(page, (number,))[0] != number for page, (number, alone) in pages(worker).items())


def reads_pagemap():
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        address = id(pagemap) // PAGE
        (entry,) = struct.unpack("<Q", os.pread(pagemap.fileno(), 8, address * 8))
        return bool(entry & (1 << 55) - 1)


def test_the_parts_are_the_proportional_set(pool):
    for number, what in enumerate([("read", 200_000), ("allocate", 20)]):
        pool.tell(number, *what)

    def is_whole():
        # Between the two looks a clone of the parent may come or go, with which pages are shared as well.
        report = pool.report()
        total = rollup(pool.pid, "Pss")
        for number, pid in enumerate(pool.workers):
            worker, pss = pool.worker(number, report), rollup(pid, "Pss")
            total += pss
            parts = worker["worker"]
            assert parts["kind"] == "pool"
            assert parts["shared_pss"] + parts["copied"] + parts["own"] == pytest.approx(pss, rel=0.02), (parts, pss)
            assert parts["shared"] + parts["copied"] + parts["own"] == pytest.approx(worker["rss"], rel=0.02)
        assert report["total_pss"] == pytest.approx(total, rel=0.02)
        return [growth["pid"] for growth in report["growth"]] == sorted(pool.workers)

    assert eventually(is_whole)


def test_what_is_written_was_copied_and_what_is_allocated_is_its_own(pool):
    before = pool.worker(0)["worker"]
    pool.tell(0, "write", 40)
    pool.tell(0, "allocate", 30)
    pool.tell(0, "fill", 20)
    report = pool.report()
    after, other = pool.worker(0, report)["worker"], pool.worker(1, report)["worker"]
    megabytes = 1 << 20
    # To run is to copy some pages, too.
    assert 40 * megabytes <= after["copied"] - before["copied"] < 50 * megabytes
    # What the parent has reserved without using it is the worker's, too, and so are some buffers.
    assert 44 * megabytes < after["own"] - before["own"] < 60 * megabytes, (before, after)
    assert other["copied"] < 10 * megabytes
    growth = next(growth for growth in report["growth"] if growth["pid"] == pool.workers[0])
    assert growth["copied"] == after["copied"] - before["copied"]


@pytest.mark.skipif(not reads_pagemap(), reason="only root sees the numbers of pages")
def test_the_copied_part_is_what_pagemap_counts(pool):
    for what in [("read", 300_000), ("write", 25), ("allocate", 10), ("fill", 10)]:
        pool.tell(0, *what)
    told = pool.worker(0)["worker"]["copied"]
    counted = copied_by_pagemap(pool.pid, pool.workers[0])
    assert counted > 40 << 20
    assert told == pytest.approx(counted, rel=0.05)


def test_copies_of_workers_are_a_finding_with_its_reason():
    # Few objects, and none that the collector tracks: copies without a reason ask for a census. It comes after 18 seconds.
    with Running(POOL, within=120) as running:
        pool = Pool(running)
        for number in range(2):
            pool.tell(number, "read", 400_000)
            pool.tell(number, "write", 80)

        def found():
            return [it for it in pool.report()["findings"] if it["kind"] == "dataloader_copies"]

        eventually(found)
        eventually(lambda: ask(pool.pid)["census"]["at_s"], within=90)
        (finding,) = found()
        assert "2 workers of a process pool have copied" in finding["text"]
        assert finding["holder"] == "__main__.VOCAB" and "__main__.VOCAB (dict of 400,000 entries)" in finding["text"], finding
        # It has no objects: nothing is written to it when it is read.
        assert "TABLE" not in finding["text"]
        assert finding["bytes"] > 160 << 20 and finding["doc"] == "docs/training.md#memory-of-workers"
        text = neurogc("memory", pool.pid, "--children")
        assert "worker (pool)" in text and "Copies, certain" in text


def test_of_three_workers_the_one_that_leaks_is_named():
    with Running(POOL.replace("range(2)", "range(3)"), within=240) as running:
        pool = Pool(running)

        def found():
            pool.tell(1, "allocate", 2)
            # The series that the verdict is made from has a point for every five seconds, and growth is judged after 80.
            time.sleep(2)
            return [it for it in pool.report()["findings"] if it["kind"] == "children"]

        (finding,) = eventually(found, within=200)
        assert finding["holder"] == f"worker {pool.workers[1]}", finding
        assert "of a process pool grows by" in finding["text"] and "2 other workers do not grow" in finding["text"], finding


def test_workers_of_gunicorn_are_known_as_such(tmp_path):
    pytest.importorskip("gunicorn")
    words = (sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:{port}", "--log-level", "warning", "-w", "2", "--preload")
    service = Service((*words, "plain_wsgi:app"))
    try:
        service.wait_until_it_answers()
        master = service.process.pid

        def both():
            children = neurogc("memory", master, "--children", "--json")["children"]
            return [child for child in children if child["worker"]] if len(children) == 2 else None

        workers = eventually(both)
        assert [child["worker"]["kind"] for child in workers] == ["server", "server"], workers
        assert neurogc("memory", master, "--children").count("worker (server)") == 2
    finally:
        service.stop()


def test_a_worker_that_was_spawned_is_an_ordinary_child(tmp_path):
    program = tmp_path / "spawning.py"
    program.write_text("""
import multiprocessing, os, sys
def work():
    return os.getpid()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work), flush=True)
        sys.stdin.readline()
""")
    with Running("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", program, within=60) as running:
        spawned = int(running.line())
        assert eventually(socket_path(running.pid).exists)
        children = neurogc("memory", running.pid, "--children", "--json")["children"]
        assert spawned in [child["pid"] for child in children]
        assert [child["worker"] for child in children] == [None] * len(children), children
        running.say()
        running.ends()


def test_an_ordinary_child_is_no_worker():
    code = """
import os, sys, time
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
sys.stdin.readline()
os.kill(child, 9)
os.waitpid(child, 0)
"""
    with Running(code, within=30) as running:
        child = int(running.line())
        assert eventually(socket_path(running.pid).exists)
        (seen,) = neurogc("memory", running.pid, "--children", "--json")["children"]
        assert (seen["pid"], seen["worker"]) == (child, None)
        running.say()
        running.ends()

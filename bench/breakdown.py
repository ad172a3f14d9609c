"""What a reading of the memory costs, whether it stops the program, and what `trim` gives back.

    python bench/breakdown.py read [--gigabytes 1]        one program for each kind of memory: the time of a reading, the share
                                                          that it explains, and the longest gaps of threads beside it
    python bench/breakdown.py trim [--gigabytes 1]        threads that allocated and freed: `trim` and `malloc_trim`, memory
                                                          given back and the longest gaps of threads beside them

Gaps are the longest times that threads in C needed for something short: to allocate and free in the arenas that are read or
trimmed, and to map and unmap memory. Without a reading they show what the machine itself does to such threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python"

# Threads that measure their own longest gap, and allocators of memory in arenas. Compiled once.
NATIVE = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static volatile int running;
static volatile double longest[2];
static pthread_t threads[2];
static void operate(void) {
    double t = now();
    /* Sizes beyond the thread's own cache, which needs no lock. */
    char *volatile a = malloc(3000), *volatile b = malloc(70000);
    a[0] = b[0] = 1;
    free(a); free(b);
    t = now() - t;
    if (t > longest[0]) longest[0] = t;
}
/* Allocates in the arena of the calling thread until it is told to end. */
void allocate(void) {
    struct timespec pause = {0, 200000};
    while (running) { operate(); nanosleep(&pause, 0); }
}
static void *allocating(void *x) { allocate(); return x; }
static void *map(void *x) {
    struct timespec pause = {0, 200000};
    while (running) {
        double t = now();
        char *a = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        a[0] = 1;
        munmap(a, 1 << 16);
        t = now() - t;
        if (t > longest[1]) longest[1] = t;
        nanosleep(&pause, 0);
    }
    return x;
}
void begin(void) { running = 1; pthread_create(&threads[0], 0, allocating, 0); pthread_create(&threads[1], 0, map, 0); }
void reset(void) { longest[0] = longest[1] = 0; }
double gap(int which) { return longest[which]; }
void end(void) { running = 0; pthread_join(threads[0], 0); pthread_join(threads[1], 0); }

struct share { size_t size, count, every; pthread_barrier_t *both; };
static void *work(void *x) {
    struct share *s = x;
    void **blocks = malloc(s->count * sizeof *blocks);
    for (size_t i = 0; i < s->count; i++) memset(blocks[i] = malloc(s->size + i % 512), 1, s->size);
    pthread_barrier_wait(s->both);
    for (size_t i = 0; i < s->count; i++) if (i % s->every) free(blocks[i]);
    pthread_barrier_wait(s->both);
    for (;;) { struct timespec t = {0, 2000000}; nanosleep(&t, 0); if (running) operate(); }
    return 0;
}
/* Threads that allocate, free all but a few blocks, and go on allocating now and then. */
void arenas(size_t number, size_t size, size_t count, size_t every) {
    static struct share s; static pthread_barrier_t both;
    pthread_barrier_init(&both, 0, number + 1);
    s = (struct share){size, count, every, &both};
    for (size_t i = 0; i < number; i++) { pthread_t t; pthread_create(&t, 0, work, &s); }
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
}
/* The same in the calling thread. */
void fragments(size_t size, size_t count, size_t every) {
    void **blocks = malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) memset(blocks[i] = malloc(size + i % 512), 1, size);
    for (size_t i = 0; i < count; i++) if (i % every) free(blocks[i]);
}
"""

PROGRAM = """
import ctypes, json, mmap, sys, threading, time
import neurogc
kind, size, library = sys.argv[1], float(sys.argv[2]), ctypes.CDLL(sys.argv[3])
library.gap.restype = ctypes.c_double
for name in ("arenas", "fragments"):
    getattr(library, name).argtypes = [ctypes.c_size_t] * (4 if name == "arenas" else 3)
neurogc.install(policy="observe", adapters=False, allocations="off")
total = int(size * (1 << 30))
if kind == "objects":
    kept = [object() for _ in range(total // 24)]
elif kind == "small blocks":
    # Every other block is free: the largest number of free blocks.
    library.fragments(600, total // 870, 2)
elif kind == "large blocks":
    kept = [bytearray(b"x") * (4 << 20) for _ in range(total >> 22)]
elif kind == "mapped":
    kept = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, total, 4096):
        kept[page] = 1
elif kind == "many mappings":
    kept = [mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=1 + 2 * (n & 1)) for n in range(20000)]
elif kind == "arenas":
    library.arenas(16, 20000, total // 16 // 20272, 50)
elif kind == "main arena":
    library.fragments(20000, total // 20272, 50)

def beside(action):
    # The action in another thread, while this one allocates from the main arena.
    found = []
    def act():
        time.sleep(0.01)
        library.reset()
        began = time.perf_counter()
        result = action()
        found.append((result, time.perf_counter() - began, library.gap(0), library.gap(1)))
        library.end()
    library.begin()
    thread = threading.Thread(target=act)
    thread.start()
    library.allocate()
    thread.join()
    (result, took, malloc_gap, mmap_gap), = found
    return result, {"took_ms": took * 1e3, "malloc_gap_ms": malloc_gap, "mmap_gap_ms": mmap_gap}

rows = {}
rows["nothing"] = [beside(lambda: time.sleep(0.1))[1] for _ in range(5)]
if sys.argv[4] == "read":
    found = neurogc.memory.breakdown()
    rows["reading"] = [beside(neurogc.memory.breakdown)[1] for _ in range(5)]
    rows["smaps"] = [beside(lambda: open("/proc/self/smaps").read())[1] for _ in range(3)]
else:
    found = neurogc.memory.breakdown()
    if sys.argv[4] == "trim":
        done, figures = beside(neurogc.memory.trim)
        rows["trim"] = [figures | done]
    else:
        _, figures = beside(lambda: ctypes.CDLL(None).malloc_trim(0))
        rows["trim"] = [figures]
    after = neurogc.memory.breakdown()
    rows["trim"][0]["returned"] = 1 - after["trimmable"] / found["trimmable"]
    rows["trim"][0]["rss"] = [found["rss"], after["rss"]]
parts = ["python_used", "python_free", "malloc_used", "malloc_free", "mapped", "stacks", "libraries", "other"]
print(json.dumps({"rows": rows, "rss": found["rss"], "explained": found["explained"], "trimmable": found["trimmable"],
                  "arenas": found["malloc_arenas"], "parts": {part: found[part] >> 20 for part in parts}}))
"""


def build(folder: Path) -> Path:
    source, library = folder / "gaps.c", folder / "gaps.so"
    source.write_text(NATIVE)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    return library


def run(python: str, kind: str, size: float, library: Path, what: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    environment["PYTHONPATH"] = str(HOME)
    words = [python, "-c", PROGRAM, kind, str(size), str(library), what]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def middle(rows: list[dict], name: str) -> float:
    return sorted(row[name] for row in rows)[len(rows) // 2]


def gap(rows: list[dict], name: str) -> str:
    """The longest gap of the middle run and, in brackets, of all runs: a busy machine makes gaps of its own."""
    return f"{middle(rows, name):.2f} ({max(row[name] for row in rows):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["read", "trim"])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        if options.what == "read":
            kinds = ["objects", "small blocks", "large blocks", "mapped", "many mappings", "arenas"]
            print("memory          RSS MB  explained  reading ms   longest gap: alone   reading   smaps (malloc, mmap) ms")
            for kind in [options.only] if options.only else kinds:
                seen = run(options.python, kind, options.gigabytes, library, "read")
                rows = seen["rows"]
                gaps = "   ".join(f"{gap(rows[name], 'malloc_gap_ms')}, {gap(rows[name], 'mmap_gap_ms')}"
                                  for name in ("nothing", "reading", "smaps"))
                print(f"{kind:14} {seen['rss'] >> 20:7} {100 * seen['explained']:9.1f} % {middle(rows['reading'], 'took_ms'):10.1f}"
                      f"   {gaps}   {seen['parts']}", flush=True)
        else:
            print("memory      by           free MB  returned   took ms  longest gap: alone   meanwhile (malloc, mmap) ms")
            for kind in [options.only] if options.only else ["arenas", "main arena"]:
                for what in ("trim", "malloc_trim"):
                    seen = run(options.python, kind, options.gigabytes, library, what)
                    (row,) = seen["rows"]["trim"]
                    alone = seen["rows"]["nothing"]
                    print(f"{kind:11} {what:12} {seen['trimmable'] >> 20:7} {100 * row['returned']:8.1f} % {row['took_ms']:8.1f}"
                          f"   {gap(alone, 'malloc_gap_ms')}, {gap(alone, 'mmap_gap_ms')}"
                          f"   {row['malloc_gap_ms']:.2f}, {row['mmap_gap_ms']:.2f}   {row.get('max_lock_ms', 0):.2f} locked"
                          f"  RSS {[size >> 20 for size in row['rss']]}", flush=True)


if __name__ == "__main__":
    main()

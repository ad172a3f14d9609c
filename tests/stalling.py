"""A program that stalls in known ways: `stalling.py CAUSE COUNT` injects stalls and prints what was seen as JSON."""

import ctypes
import gc
import json
import os
import random
import re
import sys
import time

import neurogc
from killing import thread_named
from observed import eventually

LIBC = ctypes.PyDLL(None)
NUMBERS = list(range(150_000))

# Time without a processor, as a share of the stall, up to which it counts as undisturbed.
UNDISTURBED = 0.03

# More stalls than this are not injected, however few were undisturbed.
MOST = 200


def python_tight(seconds):
    """A loop of a few instructions, the hardest to tell from native code."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def python_work(seconds):
    """A loop that computes."""
    end = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < end:
        for number in range(1000):
            total += number * number


def native_sleep(seconds):
    """Native code that sleeps with the GIL held."""
    LIBC.usleep(int(seconds * 1e6))


def native_sort(seconds):
    """Native code that computes with the GIL held."""
    sorted(NUMBERS, reverse=True)
    LIBC.usleep(int(seconds * 1e6))


def native_match(seconds):
    """A regular expression that backtracks, for about 35 ms."""
    re.match(r"(a+)+$", "a" * 20 + "b")


def starved(seconds):
    """Little work, which takes long where there is no processor for it."""
    end = time.process_time() + 0.004
    while time.process_time() < end:
        pass


def collecting(seconds):
    """A full collection of a heap that is large enough."""
    gc.collect()


KINDS = {
    "python": [python_tight, python_work],
    "gil_native": [native_sleep, native_sort, native_match],
    "cpu_starved": [starved],
    "gc": [collecting],
}


def waited(task):
    """Nanoseconds that a thread has been ready to run without a processor."""
    with open(f"/proc/self/task/{task}/schedstat") as account:
        return int(account.read().split()[1])


def main(cause, count):
    """Injects stalls until so many were undisturbed, and prints what was seen of each of them.

    A machine that is busy with something else takes the processor away in the middle of a stall, or from who looks on;
    such a stall has two causes, or none that could be seen, and says nothing about the label.
    """
    neurogc.install(policy="observe", adapters=False)
    # On a fast machine a collection of a third of it is no stall.
    heap = [[number] for number in range(600_000)] if cause == "gc" else None
    lengths = random.Random(7)
    injected = []
    me, conductor = os.getpid(), eventually(lambda: thread_named(os.getpid(), "neurogc"), what="the conductor")
    before = neurogc.status()["stalls"]["count"]
    while count > 0 and len(injected) < MOST:
        kind = KINDS[cause][len(injected) % len(KINDS[cause])]
        mine, its, began = waited(me), waited(conductor), time.perf_counter_ns()
        kind(lengths.uniform(0.012, 0.04))
        took = time.perf_counter_ns() - began
        share = (waited(me) - mine) / took
        # What happens until the stall is told is told with it.
        time.sleep(0.01)
        after = neurogc.status()["stalls"]
        disturbed = waited(me) - mine > UNDISTURBED * took or waited(conductor) - its > 3 * UNDISTURBED * took
        new = after["recent"][before - after["count"]:] if after["count"] > before else []
        seen, sites = [each["cause"] for each in new], [each["site"] for each in new]
        injected.append({"kind": kind.__name__, "waited": share, "disturbed": disturbed, "seen": seen, "sites": sites})
        before = after["count"]
        count -= not disturbed or cause == "cpu_starved"
    del heap
    print(json.dumps(injected))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A program that stalls in known ways: `stalling.py CAUSE COUNT` injects stalls and prints what was seen as JSON."""

import ctypes
import gc
import json
import random
import re
import sys
import time

import neurogc

LIBC = ctypes.PyDLL(None)
NUMBERS = list(range(150_000))

# Share of a stall without a processor up to which it counts as undisturbed.
UNDISTURBED = 0.03


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
    """A regular expression that backtracks."""
    re.match(r"(a+)+$", "a" * 20 + "b")
    LIBC.usleep(int(seconds * 1e6))


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


def waited():
    """Nanoseconds that this thread has been ready to run without a processor."""
    with open("/proc/thread-self/schedstat") as account:
        return int(account.read().split()[1])


def new_causes(before, after):
    """The causes of the stalls between two reports."""
    return [name for name in after for _ in range(after[name] - before[name])]


def main(cause, count):
    """Injects stalls until so many were undisturbed, and prints what was seen of each of them.

    A machine that is busy with something else takes the processor away in the middle of a stall; such a stall has two
    causes and says nothing about the label.
    """
    neurogc.install(policy="observe", adapters=False)
    heap = [[number] for number in range(200_000)] if cause == "gc" else None
    lengths = random.Random(7)
    injected = []
    before = neurogc.status()["stalls"]["by_cause"]
    while count > 0 and len(injected) < 300:
        kind = KINDS[cause][len(injected) % len(KINDS[cause])]
        waited_before, began = waited(), time.perf_counter_ns()
        kind(lengths.uniform(0.012, 0.04))
        share = (waited() - waited_before) / (time.perf_counter_ns() - began)
        time.sleep(0.01)
        after = neurogc.status()["stalls"]["by_cause"]
        injected.append({"kind": kind.__name__, "waited": share, "seen": new_causes(before, after)})
        before = after
        count -= share < UNDISTURBED or cause == "cpu_starved"
    del heap
    print(json.dumps({"injected": injected, "recent": neurogc.status()["stalls"]["recent"]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A program that never rests, collected by one snapshot after the other; what it keeps must be there, what it drops must go.

    snapshot_stress.py SECONDS

Threads and an event loop make, link, drop and bring back nodes. Among the snapshots some are called off, and some are
overtaken by a full collection or by frozen objects.
"""

import asyncio
import gc
import itertools
import json
import random
import sys
import threading
import time
import weakref

import neurogc

SECONDS = float(sys.argv[1])
KEYS = 8_000
ENOUGH, PATIENCE = 1_000, 15
AGENT = neurogc._native.agent

made = [0] * 8
# Counted without a list, which would grow.
gone = itertools.count()
alive = {}
weak = weakref.WeakValueDictionary()
wrong = []
stop = threading.Event()


class Node:
    """A node with a partner, in a cycle; both know their key."""

    def __init__(self, key, maker):
        made[maker] += 1
        self.key = key
        self.check = [key]
        self.partner = Partner(self)
        self.extra = {key: (self.check, self.partner)}

    def __del__(self):
        next(gone)

    def is_whole(self, key):
        return self.key == key and self.check == [key] and self.partner.of is self and key in self.extra


class Partner:
    __slots__ = ("of", "held", "__weakref__")

    def __init__(self, of):
        self.of = of
        self.held = (lambda node: lambda: node())(weakref.ref(of))


def churn(maker):
    """Makes, drops, brings back and looks."""
    rng = random.Random(maker)
    loose = []
    while not stop.is_set():
        one_step(rng, maker)
        # This thread breaks up garbage that only it can reach, so that CPython has freed it before a slice gets to it.
        loose.append(weakref.ref(Node(-1, maker)))
        if len(loose) > 400:
            node = loose.pop(rng.randrange(len(loose)))()
            if node is not None:
                node.extra.clear()
                node.partner = None


def one_step(rng, maker):
    key = rng.randrange(KEYS)
    node = alive.pop(key, None) or weak.get(key)
    if node is None:
        node = Node(key, maker)
        alive[key] = node
    else:
        weak[key] = node
        if rng.random() < 0.6:
            alive[key] = node
    for key in rng.sample(range(KEYS), 4):
        node = alive.get(key)
        if node is not None and not node.is_whole(key):
            wrong.append(key)


async def serve():
    """Tasks that wait for each other, fail, and leave cycles of frames behind."""
    rng = random.Random(77)

    async def fail():
        await asyncio.sleep(0)
        try:
            raise ValueError(rng.random())
        except ValueError as error:
            kept = [error]
            kept.append(kept)
            return kept

    async def stream():
        mine = None
        while True:
            mine = yield mine

    while not stop.is_set():
        one_step(rng, 7)
        await asyncio.gather(*(fail() for _ in range(5)))
        source = stream()
        await source.asend(None)
        await source.asend([source])
        await asyncio.sleep(0.001)
        await source.aclose()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def collect(end):
    """Snapshots back to back, until the end. Gives what they did and how memory stood."""
    rng = random.Random(5)
    counts = {"flights": 0, "freed": 0, "moved": 0, "dropped": 0}
    sizes = []
    # On a busy machine CPython's own full collections overtake most of them.
    while time.monotonic() < end or counts["freed"] <= ENOUGH and time.monotonic() < end + PATIENCE:
        try:
            AGENT.snapshot_launch()
        except RuntimeError as error:
            # Another thread's collection has let this one in, from a finalizer.
            assert "collection is running" in str(error), error
            continue
        counts["flights"] += 1
        fate = rng.random()
        if fate < 0.03:
            AGENT.snapshot_cancel()
        elif fate < 0.05:
            gc.collect()
        elif fate < 0.06:
            gc.freeze()
            gc.unfreeze()
        while True:
            word, _ = AGENT.snapshot_look()
            if word in ("idle", "failed"):
                break
            if word == "ready":
                freed, moved, dropped, _, _ = AGENT.snapshot_reap(rng.choice((0.5, 2.0, 20.0)), rng.random() < 0.7)
                counts["freed"] += freed
                counts["moved"] += moved
                counts["dropped"] += dropped
            time.sleep(0.0005)
        sizes.append(resident())
    return counts, sizes


def main():
    # Many short turns: more of them fall between a clone and what follows.
    sys.setswitchinterval(0.0002)
    began = time.monotonic()
    threads = [threading.Thread(target=churn, args=(maker,), daemon=True) for maker in range(3)]
    threads.append(threading.Thread(target=lambda: asyncio.run(serve()), daemon=True))
    for thread in threads:
        thread.start()
    counts, sizes = collect(began + SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} nodes were not whole: {wrong[:5]}"
    for key, node in alive.items():
        assert node.is_whole(key), key
    AGENT.collect_snapshot()
    gc.collect()
    deleted = next(gone)
    assert sum(made) - deleted == len(alive), (sum(made), deleted, len(alive))
    failed = AGENT.snapshot_figures()["failed"]
    # A busy machine may be too slow for a walk.
    assert set(failed) <= {"cancelled", "collected", "frozen", "late"}, failed
    third = len(sizes) // 3
    growth = max(sizes[-third:]) / max(sizes[third : 2 * third]) if third else 1.0
    assert SECONDS < 30 or growth < 1.2, f"memory grew by {growth:.2f} from the second third to the last"
    json.dump({**counts, "made": sum(made), "failed": failed, "growth": round(growth, 2)}, sys.stdout)
    print()


main()

"""A day in ten seconds: work comes at random, ten times as often at noon as at midnight, beside a small heap.

What a piece of work keeps refers to itself and dies two hundred pieces later, in the old generation.
"""

from __future__ import annotations

import collections
import math
import random
import time

import stage

LIVE = 30_000
KEPT = 300
PIECES_KEPT = 200
DAY_S = 10.0
RATES = (20.0, 200.0)


class Entry:
    """Something that knows itself."""

    __slots__ = ("fields", "me")

    def __init__(self, number: int):
        self.me = self
        self.fields = {"number": number, "links": []}


class Service:
    """What works, and what it holds."""

    def __init__(self) -> None:
        self.live = [Entry(number) for number in range(stage.scaled(LIVE) // 3)]
        self.recent: collections.deque = collections.deque(maxlen=PIECES_KEPT)
        self.chance = random.Random(7)
        self.began = time.perf_counter()

    def step(self) -> float:
        """One piece of work and the wait for the next; how much longer than the wait it took, in milliseconds."""
        began = time.perf_counter()
        with stage.request():
            self.recent.append([Entry(number) for number in range(KEPT // 3)])
            sum(entry.fields["number"] for entry in self.live[:: max(1, len(self.live) // 2000)])
            noon = 0.5 - 0.5 * math.cos(2 * math.pi * (began - self.began) / DAY_S)
            wait = self.chance.expovariate(RATES[0] + (RATES[1] - RATES[0]) * noon)
            # What is collected at the end of the work takes its time from the wait.
            ready = time.perf_counter() + wait
        while (left := ready - time.perf_counter()) > 0:
            time.sleep(left)
        return (time.perf_counter() - began - wait) * 1000


if __name__ == "__main__":
    stage.begin()
    service = Service()
    stage.loaded()
    stage.run_loop(service.step)

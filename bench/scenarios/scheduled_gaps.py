"""Steps with a rhythm: each waits for 15 ms, and each tenth for 60 ms, as a loop that saves something or changes its batch.

The heap is small, so a collection of everything takes some milliseconds: it fits into the long wait and not beside the others.
What a step keeps refers to itself and dies a hundred steps later, in the old generation.
"""

from __future__ import annotations

import collections
import time

import stage

LIVE = 30_000
KEPT = 400
STEPS_KEPT = 100
SHORT_S = 0.015
LONG_S = 0.060
PERIOD = 10


class Entry:
    """Something that knows itself."""

    __slots__ = ("fields", "me")

    def __init__(self, number: int):
        self.me = self
        self.fields = {"number": number, "links": []}


class Loop:
    """The loop, and what it holds."""

    def __init__(self) -> None:
        self.live = [Entry(number) for number in range(stage.scaled(LIVE) // 3)]
        self.recent: collections.deque = collections.deque(maxlen=STEPS_KEPT)
        self.steps = 0

    def step(self) -> float:
        """One step; how much longer than its wait it took, in milliseconds."""
        began = time.perf_counter()
        with stage.request():
            self.recent.append([Entry(number) for number in range(KEPT // 3)])
            sum(entry.fields["number"] for entry in self.live[:: max(1, len(self.live) // 2000)])
            self.steps += 1
            wait = LONG_S if self.steps % PERIOD == 0 else SHORT_S
            # What is collected at the end of the step takes its time from the wait.
            ready = time.perf_counter() + wait
        while (left := ready - time.perf_counter()) > 0:
            time.sleep(left)
        return (time.perf_counter() - began - wait) * 1000


if __name__ == "__main__":
    stage.begin()
    loop = Loop()
    stage.loaded()
    stage.run_loop(loop.step)

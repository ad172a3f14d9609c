"""The loop of an LLM engine: schedule a batch, wait for the accelerator, hand the tokens out. Twenty milliseconds each.

The accelerator is simulated: it works for 17 ms after a batch was handed over, with the GIL released. A collection
inside that wait costs nothing; one in the host's part of the step makes every user of the batch wait. The engine keeps
a million tracked objects: requests, blocks of its cache, and their tables.
"""

from __future__ import annotations

import time

import stage

LIVE = 1_000_000
ACCELERATOR_S = 0.017
BATCH = 48
BLOCKS = 120


class Sequence:
    """One conversation under way. Its blocks know it: cycles, which die old when it ends."""

    __slots__ = ("blocks", "number", "tokens")

    def __init__(self, number: int):
        self.number = number
        self.tokens = [number]
        self.blocks = [{"owner": self, "slot": slot} for slot in range(BLOCKS)]


def cache(objects: int) -> list:
    """Tables that stay: lists of dicts, two tracked objects each."""
    return [[{"block": number, "users": [number]}] for number in range(objects // 3)]


class Engine:
    """The host's side of the loop."""

    def __init__(self) -> None:
        self.tables = cache(stage.scaled(LIVE))
        self.running = [Sequence(number) for number in range(BATCH)]
        self.finished = 0

    def host_part(self) -> int:
        """A few milliseconds of scheduling and detokenizing."""
        plan = []
        for at, sequence in enumerate(self.running):
            for block in sequence.blocks:
                at_block = (sequence.number * 31 + block["slot"]) % len(self.tables)
                plan.append([block["slot"], self.tables[at_block]])
            sequence.tokens.append(len(plan))
            text = [{"token": token, "of": sequence, "text": str(token)} for token in sequence.tokens[-30:]]
            if len(sequence.tokens) > 8 + at // 4:
                self.finished += 1
                self.running[at] = Sequence(self.finished)
            plan.append([0, text])
        return len(plan)

    def step(self) -> float:
        """One step; its time in milliseconds."""
        began = time.perf_counter()
        with stage.request():
            self.host_part()
        ready = time.perf_counter() + ACCELERATOR_S
        while (left := ready - time.perf_counter()) > 0:
            time.sleep(left)
        return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    stage.begin()
    engine = Engine()
    stage.loaded()
    stage.run_loop(engine.step)

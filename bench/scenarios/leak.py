"""Memory that only grows, half of it in cycles that are still reachable: no collection helps, and none may be wasted.

A collector that takes growth for garbage collects for ever and frees nothing. What must hold: the steps go on at their
pace, nothing hangs, and the memory is what the program really holds.
"""

from __future__ import annotations

import time

import stage

PAUSE_S = 0.002


class Leaked:
    """Reachable for ever, and in a cycle."""

    def __init__(self, number: int):
        self.number = number
        self.myself = self
        self.notes = [number, {"number": number}]


class Leak:
    """Grows by some hundred objects in each step."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def step(self) -> float:
        """One step; its time in milliseconds, without the rest after it."""
        began = time.perf_counter()
        with stage.request():
            number = len(self.kept)
            self.kept.extend(Leaked(number + index) for index in range(150))
            self.kept.extend([index, str(number + index)] for index in range(150))
            for index in range(50):
                garbage = {"number": index}
                garbage["self"] = garbage
        spent = (time.perf_counter() - began) * 1000
        time.sleep(PAUSE_S)
        return spent


if __name__ == "__main__":
    stage.begin()
    leak = Leak()
    stage.loaded()
    stage.run_loop(leak.step)

"""Small garbage that holds much memory: each cycle is two objects for the collector, and 100 KB for the machine.

The loop never waits and never releases the GIL, and it has no requests: a policy that counts objects, or waits for a
gap, sees nothing while the memory grows. A step makes 100 cycles.
"""

from __future__ import annotations

import resource

import stage

HELD_BYTES = 100_000
CYCLES = 100
# A loop that has taken this much ends early, so that it does not take the machine with it.
MOST_KIB = 6 << 20


class Holder:
    """Garbage as soon as it is made, in a cycle with itself."""

    def __init__(self) -> None:
        self.itself = self
        self.held = b"x" * HELD_BYTES


def step() -> None:
    """One step."""
    for _ in range(CYCLES):
        Holder()


def enough() -> str | None:
    """Why the loop should end. Reading a file would release the GIL; this does not."""
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MOST_KIB:
        return None
    return f"the loop had taken {MOST_KIB >> 20} GiB of memory"


if __name__ == "__main__":
    stage.begin()
    stage.loaded()
    stage.run_loop(step, enough=enough)

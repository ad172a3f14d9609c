"""Programs without a single cycle: there is nothing to win here, so this is the price of being there."""

from __future__ import annotations

import json
import re
import time

import stage

DOCUMENT = {"items": [{"id": index, "name": f"item {index}", "tags": ["a", "b", str(index)]} for index in range(300)]}
TEXT = "the quick brown fox jumps over the lazy dog " * 60
WORD = re.compile(r"\b(\w)(\w*)\b")


def floats() -> float:
    """Arithmetic."""
    x, y, total = 0.1, 0.2, 0.0
    for step in range(40_000):
        x, y = x * 0.99 + y * 0.01, y * 0.98 + 0.01
        total += x * y / (step + 1)
    return total


def documents() -> None:
    """JSON out and in."""
    for _ in range(6):
        json.loads(json.dumps(DOCUMENT))


def texts() -> str:
    """Regular expressions, splitting, joining, counting."""
    counts: dict[str, int] = {}
    for _ in range(4):
        for word in WORD.sub(lambda match: match.group(2) + match.group(1), TEXT).split():
            counts[word] = counts.get(word, 0) + 1
    return " ".join(sorted(counts))


def generators() -> int:
    """Generators that delegate to each other."""

    def walk(depth):
        if depth:
            yield from walk(depth - 1)
            yield depth
            yield from walk(depth - 1)

    return sum(walk(11))


def tables() -> int:
    """Many small containers that live for a moment."""
    rows = [{"key": index, "values": [index, index + 1]} for index in range(8000)]
    rows.sort(key=lambda row: -row["key"])
    return sum(row["values"][0] for row in rows)


def step() -> dict[str, float]:
    """Each program once; their times in milliseconds."""
    times = {}
    for program in (floats, documents, texts, generators, tables):
        began = time.perf_counter()
        with stage.request():
            program()
        times[program.__name__] = (time.perf_counter() - began) * 1000
    return times


if __name__ == "__main__":
    stage.begin()
    stage.loaded()
    stage.run_loop(step)

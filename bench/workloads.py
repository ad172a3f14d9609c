"""The programs that are measured: small CPU-bound ones of different kinds, and a FastAPI service."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Body:
    """A body of the solar-system simulation."""

    __slots__ = ("mass", "vx", "vy", "x", "y")

    def __init__(self, x, y, vx, vy, mass):
        self.x, self.y, self.vx, self.vy, self.mass = x, y, vx, vy, mass


def floats():
    """Arithmetic on slots."""
    bodies = [Body(index, index * 0.5, 0.1, -0.1, 1.0 + index) for index in range(6)]
    for _ in range(120):
        for one in bodies:
            for other in bodies:
                if one is not other:
                    dx, dy = one.x - other.x, one.y - other.y
                    force = other.mass / (dx * dx + dy * dy + 0.01) ** 1.5
                    one.vx -= dx * force * 0.001
                    one.vy -= dy * force * 0.001
        for body in bodies:
            body.x += body.vx * 0.001
            body.y += body.vy * 0.001


class Node:
    """A node of a tree with links in both directions: garbage for the cyclic collector."""

    def __init__(self, parent, depth):
        self.parent = parent
        self.children = [Node(self, depth - 1) for _ in range(3)] if depth else []


def cycles():
    """Objects in cycles, so that collections happen all the time."""
    for _ in range(12):
        Node(None, 5)


DOCUMENT = {"items": [{"id": index, "name": f"item {index}", "tags": ["a", "b", str(index)]} for index in range(300)]}


def documents():
    """JSON out and in."""
    for _ in range(6):
        json.loads(json.dumps(DOCUMENT))


TEXT = "the quick brown fox jumps over the lazy dog " * 60
WORD = re.compile(r"\b(\w)(\w*)\b")


def texts():
    """Regular expressions, splitting, joining, counting."""
    for _ in range(4):
        counts: dict[str, int] = {}
        for word in WORD.sub(lambda match: match.group(2) + match.group(1), TEXT).split():
            counts[word] = counts.get(word, 0) + 1
        " ".join(sorted(counts))


def tasks():
    """A tree of asyncio tasks."""

    async def branch(depth):
        if depth:
            await asyncio.gather(*(branch(depth - 1) for _ in range(4)))

    asyncio.run(branch(4))


def generators():
    """Generators that delegate to each other."""

    def walk(depth):
        if depth:
            yield from walk(depth - 1)
            yield depth
            yield from walk(depth - 1)

    sum(walk(11))


ALL = {
    "arithmetic on objects": floats,
    "objects in cycles": cycles,
    "JSON": documents,
    "regular expressions and strings": texts,
    "asyncio tasks": tasks,
    "generators": generators,
}


APPLICATION = '''
from fastapi import FastAPI
app = FastAPI()

@app.get("/item/{number}")
async def item(number: int, factor: float = 2.0):
    return {"number": number, "value": number * factor}
'''


class Server:
    """A FastAPI service behind uvicorn, with or without the agent or under a command, and a client that keeps its connection."""

    def __init__(self, application: str = APPLICATION, path: str = "/item/21", *, observed: bool = False, under: Sequence[str] = ()):
        self._path = path
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
        if observed:
            home = ROOT / "python" / "neurogc"
            env |= {"PYTHONPATH": str(home / "_inject"), "NEUROGC_HOME": str(home), "NEUROGC_POLICY": "observe"}
        code = application + f"\nimport uvicorn; uvicorn.run(app, port={port}, log_level='warning')"
        self._process = subprocess.Popen([*under, sys.executable, "-c", code], env=env)
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        deadline = time.monotonic() + 30
        while True:
            try:
                self._connection.connect()
                break
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def ask_once(self) -> float:
        """One request; gives its time in seconds."""
        began = time.perf_counter()
        self._connection.request("GET", self._path)
        self._connection.getresponse().read()
        return time.perf_counter() - began

    def ask(self, count: int) -> None:
        """Some requests to warm up."""
        for _ in range(count):
            self.ask_once()

    def processor_seconds(self) -> float:
        """What the threads of the service have used so far, the agent's included."""
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def stop(self) -> None:
        """Ends the service."""
        self._connection.close()
        self._process.terminate()
        self._process.wait()

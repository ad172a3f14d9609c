"""A small web service with the trouble of a real one: a large live heap and cyclic garbage in every request."""

import asyncio
import os
from collections import deque

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

RECORDS = int(os.environ.get("DEMO_RECORDS", "200000"))

app = FastAPI()

# What a service keeps for ever: a cache, a model's tables, open sessions. Every full collection walks all of it.
live = {number: {"id": number, "tags": [number, str(number)]} for number in range(RECORDS)}


# What a service keeps for a while. It grows old before it dies, so only a full collection frees it.
sessions: deque = deque(maxlen=2000)


class Node:
    """One of a ring: nothing but the collector can free it."""

    def __init__(self) -> None:
        self.next: Node = self


def ring(size: int) -> Node:
    """Cyclic garbage as soon as the caller forgets it."""
    first = last = Node()
    for _ in range(size):
        last.next = Node()
        last = last.next
    last.next = first
    return first


@app.get("/record/{number}")
async def record(number: int) -> dict:
    """Looks a record up, and makes garbage while doing so, as parsers, ORMs and tracebacks do."""
    ring(200)
    sessions.append(ring(60))
    return live[number % RECORDS]


@app.get("/stream")
async def stream() -> StreamingResponse:
    """An answer in pieces: the request lasts until the last one."""

    async def pieces():
        for number in range(5):
            ring(50)
            yield f"piece {number}\n"
            await asyncio.sleep(0.005)

    return StreamingResponse(pieces(), media_type="text/plain")

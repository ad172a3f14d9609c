"""The service that bench/serve.py measures: a large live heap, and cyclic garbage with every request.

    python bench/service.py --records 300000 --spins 20000        prints {"port": …} once it is ready

A record is three tracked objects (itself, a dict, a list) and knows its parent. A request reads some live records,
computes for a fixed number of steps, builds a tree of records with links in both directions, which dies with it, and
replaces the oldest of a ring of sessions: trees that live for hundreds of requests, and so die in the old generation.
SERVICE_COLLECTOR=off disables the collector before anything is built.
"""

from __future__ import annotations

import argparse
import array
import gc
import json
import os
import socket
import sys
import time

REQUEST_RECORDS = 100
SESSION_RECORDS = 33
SESSIONS = 500
READ_RECORDS = 20


class Record:
    """A small object of three tracked ones, with slots so that it is three on every version."""

    __slots__ = ("fields", "parent")

    def __init__(self, parent, number):
        self.parent = parent
        self.fields = {"number": number, "links": []}


def tree(count: int, number: int) -> Record:
    """Records with links in both directions: only the cyclic collector can free them."""
    records = [Record(None, number)]
    for index in range(1, count):
        parent = records[index // 4]
        record = Record(parent, number + index)
        parent.fields["links"].append(record)
        records.append(record)
    return records[0]


def live_heap(count: int) -> list[Record]:
    """The records that stay, each with a link to its parent."""
    records = [Record(None, 0)]
    for number in range(1, count):
        records.append(Record(records[number // 8], number))
    return records


def spin(steps: int, number: int) -> int:
    """Work for the processor that allocates nothing that the collector tracks."""
    value = number
    for _ in range(steps):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
    return value


class Collections:
    """Every collection of this process, from the collector's callbacks: automatic ones, the agent's and the service's."""

    def __init__(self):
        self.in_flight = 0
        # Four numbers each (when, generation, pause, requests in flight) in an array: nothing for the collector.
        self._seen = array.array("d")
        self._began = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase, info):
        if phase == "start":
            self._began = time.monotonic()
        else:
            pause = time.monotonic() - self._began
            self._seen.extend((self._began, info["generation"], pause, self.in_flight))

    def between(self, since: float, until: float) -> dict:
        """What happened in a stretch of time: count, in_request, total_ms and max_ms of each generation."""
        sums = [{"count": 0, "in_request": 0, "total_ms": 0.0, "max_ms": 0.0} for _ in range(3)]
        for at in range(0, len(self._seen), 4):
            when, generation, pause, in_flight = self._seen[at : at + 4]
            if since <= when < until:
                into = sums[int(generation)]
                into["count"] += 1
                into["in_request"] += in_flight > 0
                into["total_ms"] += pause * 1000
                into["max_ms"] = max(into["max_ms"], pause * 1000)
        return dict(zip(("young", "middle", "full"), sums))


def application(records: list[Record], spins: int):
    """The ASGI application."""
    from fastapi import FastAPI

    api = FastAPI()
    sessions: list[Record | None] = [None] * SESSIONS
    collections = Collections()

    @api.get("/item/{number}")
    async def work(number: int):
        scratch = tree(REQUEST_RECORDS, number)
        sessions[number % SESSIONS] = tree(SESSION_RECORDS, number)
        total = spin(spins, number)
        for step in range(READ_RECORDS):
            total += records[(total + step * 7919) % len(records)].fields["number"]
        return {"number": number, "total": total, "links": len(scratch.fields["links"])}

    @api.get("/report")
    async def report(since: float, until: float):
        # Injected, not imported: the package need not be on the path, and plain runs do not have it.
        agent = sys.modules.get("neurogc")
        try:
            status = agent.status() if agent else None
        except RuntimeError:
            # The package is there, but it refused to start, as it does with a policy that it does not know.
            status = None
        return {
            "collections": collections.between(since, until),
            "enabled": gc.isenabled(),
            "neurogc": status,
        }

    @api.get("/tracked")
    async def tracked():
        return len(gc.get_objects()) + gc.get_freeze_count()

    async def counted(scope, receive, send):
        if scope["type"] != "http":
            return await api(scope, receive, send)
        collections.in_flight += 1
        try:
            await api(scope, receive, send)
        finally:
            collections.in_flight -= 1

    return counted


def main() -> None:
    """Builds the heap and serves until it is terminated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--spins", type=int, default=20_000, help="steps of computation in a request")
    parser.add_argument("--loop", default="asyncio", choices=["asyncio", "uvloop"])
    options = parser.parse_args()
    if os.environ.get("SERVICE_COLLECTOR") == "off":
        gc.disable()
    import uvicorn

    app = application(live_heap(options.records), options.spins)
    config = uvicorn.Config(
        app, loop=options.loop, log_level="warning", access_log=False, timeout_keep_alive=3600, backlog=4096
    )
    # asyncio turns Nagle's algorithm off only where the protocol is named, and 40 ms of delay are not our subject.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        # Who connects from now on is served as soon as the loop runs.
        listener.listen(4096)
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

"""A large live heap, and cyclic garbage with every request.

A record is three tracked objects (itself, a dict, a list) and knows its parent. A request reads some live records,
computes for a fixed number of steps, builds a tree of records with links in both directions, which dies with it, and
replaces the oldest of a ring of sessions: trees that live for hundreds of requests, and so die in the old generation.
"""

from __future__ import annotations

import stage

RECORDS = 300_000
REQUEST_RECORDS = 100
SESSION_RECORDS = 33
SESSIONS = 500
READ_RECORDS = 20
STEPS = 20_000


class Record:
    """A small object of three tracked ones, with slots so that it is three on every version."""

    __slots__ = ("fields", "parent")

    def __init__(self, parent: Record | None, number: int):
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


def compute(number: int) -> int:
    """Work for the processor that allocates nothing that the collector tracks."""
    value = number
    for _ in range(STEPS):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
    return value


def application(records: list[Record]):
    """The ASGI application."""
    from fastapi import FastAPI

    api = FastAPI()
    sessions: list[Record | None] = [None] * SESSIONS

    @api.get("/item/{number}")
    async def work(number: int):
        scratch = tree(REQUEST_RECORDS, number)
        sessions[number % SESSIONS] = tree(SESSION_RECORDS, number)
        total = compute(number)
        for step in range(READ_RECORDS):
            total += records[(total + step * 7919) % len(records)].fields["number"]
        return {"number": number, "total": total, "links": len(scratch.fields["links"])}

    return api


def main(records: int = RECORDS) -> None:
    """Serves until it is terminated."""
    stage.begin()
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        stage.skip(f"{error.name} is not installed: pip install fastapi uvicorn")
    app = application(live_heap(stage.scaled(records)))
    stage.loaded()
    stage.serve_asgi(app)


if __name__ == "__main__":
    main()

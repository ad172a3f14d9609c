"""Four endpoints, one for each thing that a service can be busy with: processor, memory, files, network.

The load of the original NeuroGC: users who join one after the other, ask for one of the four, and think for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile

import stage

RECORDS = 150_000


class Order:
    """A record with links in both directions, as an ORM makes them."""

    def __init__(self, number: int):
        self.number = number
        self.items = [{"order": self, "position": position, "price": position * 1.5} for position in range(4)]


def application(records: list[dict]):
    """The ASGI application."""
    from fastapi import FastAPI

    api = FastAPI()
    folder = tempfile.TemporaryDirectory(prefix="neurogc-mixed-")
    echo: dict[str, int] = {}

    @api.get("/cpu/{number}")
    async def cpu(number: int):
        digest = str(number).encode()
        for _ in range(2500):
            digest = hashlib.sha256(digest).digest()
        return {"digest": digest.hex()}

    @api.get("/memory/{number}")
    async def memory(number: int):
        orders = [Order(number + index) for index in range(400)]
        return {"total": sum(item["price"] for order in orders for item in order.items),
                "record": records[number % len(records)]["id"]}

    @api.get("/io/{number}")
    async def files(number: int):
        path = os.path.join(folder.name, str(number % 16))

        def write_and_read() -> int:
            with open(path, "wb") as file:
                file.write(os.urandom(4096) * 16)
            with open(path, "rb") as file:
                return len(file.read())

        return {"bytes": await asyncio.get_running_loop().run_in_executor(None, write_and_read)}

    @api.get("/network/{number}")
    async def network(number: int):
        if "port" not in echo:
            server = await asyncio.start_server(send_back, "127.0.0.1", 0)
            echo["port"] = server.sockets[0].getsockname()[1]
            api.state.echo = server
        reader, writer = await asyncio.open_connection("127.0.0.1", echo["port"])
        writer.write(b"x" * 65_536)
        writer.write_eof()
        received = len(await reader.read(-1))
        writer.close()
        return {"bytes": received, "number": number}

    return api


async def send_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Another service on this machine, as far as the endpoint can tell."""
    writer.write(await reader.read(-1))
    await writer.drain()
    writer.close()


if __name__ == "__main__":
    stage.begin()
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        stage.skip(f"{error.name} is not installed: pip install fastapi uvicorn")
    live = [{"id": number, "tags": [number, str(number)]} for number in range(stage.scaled(RECORDS))]
    app = application(live)
    stage.loaded()
    stage.serve_asgi(app)

"""An RSGI application, granian's own interface."""

import asyncio

import figures


async def app(scope, proto):
    path = scope.path
    if path == "/boom":
        raise RuntimeError("boom")
    if path == "/figures":
        proto.response_bytes(200, [], figures.now())
    elif path == "/stream":
        stream = proto.response_stream(200, [])
        for _ in range(5):
            await stream.send_bytes(figures.line())
            await asyncio.sleep(0)
    elif path == "/together":
        figures.arrive()
        while not figures.all_there(4):
            await asyncio.sleep(0.005)
        proto.response_bytes(200, [], figures.now())
    else:
        proto.response_str(200, [], "pong")

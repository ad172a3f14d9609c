"""An ASGI application without a framework."""

import asyncio

import figures


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    path = scope["path"]
    if path == "/boom":
        raise RuntimeError("boom")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if path == "/figures":
        await _body(send, figures.now())
    elif path == "/stream":
        for _ in range(5):
            await _body(send, figures.line(), more=True)
            await asyncio.sleep(0)
        await _body(send, b"")
    elif path == "/break":
        await _body(send, b"first\n", more=True)
        raise RuntimeError("broken")
    elif path == "/endless":
        while (await receive())["type"] != "http.disconnect":
            gone = asyncio.ensure_future(receive())
            while not gone.done():
                await _body(send, b"x" * 65536, more=True)
                await asyncio.sleep(0)
            break
    elif path == "/together":
        figures.arrive()
        while not figures.all_there(4):
            await asyncio.sleep(0.005)
        await _body(send, figures.now())
    else:
        await _body(send, b"pong")


async def _body(send, body, more=False):
    await send({"type": "http.response.body", "body": body, "more_body": more})


def factory():
    return app

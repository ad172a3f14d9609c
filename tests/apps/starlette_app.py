"""The test application on Starlette."""

import asyncio

import figures
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

_released = asyncio.Event()


async def boom(request):
    raise RuntimeError("boom")


async def stream(request):
    async def lines():
        for _ in range(5):
            yield figures.line()
            await asyncio.sleep(0)

    return StreamingResponse(lines())


async def broken(request):
    async def lines():
        yield b"first\n"
        raise RuntimeError("broken")

    return StreamingResponse(lines())


async def endless(request):
    async def lines():
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    return StreamingResponse(lines())


async def together(request):
    figures.arrive()
    while not figures.all_there(4):
        await asyncio.sleep(0.005)
    return Response(figures.now())


async def background(request):
    async def work():
        figures.background["running"] += 1
        await _released.wait()
        figures.background["running"] -= 1

    return Response("pong", background=BackgroundTask(work))


async def release(request):
    _released.set()
    return Response("pong")


async def file(request):
    return FileResponse(__file__)


async def now(request):
    return Response(figures.now())


async def ping(request):
    return Response("pong")


_ROUTES = [
    Route("/ping", ping),
    Route("/figures", now),
    Route("/boom", boom),
    Route("/stream", stream),
    Route("/break", broken),
    Route("/endless", endless),
    Route("/together", together),
    Route("/background", background),
    Route("/release", release),
    Route("/file", file),
]

# A second application inside, so that two layers of the framework see each request.
app = Starlette(routes=[Mount("/", app=Starlette(routes=_ROUTES))])

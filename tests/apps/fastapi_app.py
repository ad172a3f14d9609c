"""The test application on FastAPI, with both kinds of endpoints and a middleware of the slow kind."""

import asyncio

import figures
from fastapi import BackgroundTasks, FastAPI, Response
from fastapi.responses import FileResponse, StreamingResponse

app = FastAPI()
_released = asyncio.Event()


@app.middleware("http")
async def slow_kind(request, call_next):
    return await call_next(request)


@app.get("/ping")
def ping():
    return Response("pong")


@app.get("/figures")
async def now():
    return Response(figures.now())


@app.get("/boom")
def boom():
    raise RuntimeError("boom")


@app.get("/stream")
async def stream():
    async def lines():
        for _ in range(5):
            yield figures.line()
            await asyncio.sleep(0)

    return StreamingResponse(lines())


@app.get("/break")
async def broken():
    async def lines():
        yield b"first\n"
        raise RuntimeError("broken")

    return StreamingResponse(lines())


@app.get("/endless")
async def endless():
    async def lines():
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    return StreamingResponse(lines())


@app.get("/together")
async def together():
    figures.arrive()
    while not figures.all_there(4):
        await asyncio.sleep(0.005)
    return Response(figures.now())


@app.get("/background")
async def background(tasks: BackgroundTasks):
    async def work():
        figures.background["running"] += 1
        await _released.wait()
        figures.background["running"] -= 1

    tasks.add_task(work)
    return Response("pong")


@app.get("/release")
async def release():
    _released.set()
    return Response("pong")


@app.get("/file")
def file():
    return FileResponse(__file__)

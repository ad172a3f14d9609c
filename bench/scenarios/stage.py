"""What every scenario stands on: the collector that was asked for, a record of collections, and words with the runner.

A scenario is a service or a loop. Both print one JSON line when they are ready, {"ready": true, "port": 8123} or
{"skip": "why"}. A service answers `GET /mark` (figures start anew) and `GET /report`; a loop reads the words `go` and
`report` from its standard input, and answers each with one JSON line. The environment says how to run:

    SCENE_COLLECTOR    empty: as Python has it; `off`; `each`: only after each request; `thread:S`: also by a thread,
                       every S seconds; `freeze+threshold:G0,G1,G2`: what people do by hand once everything is loaded
    SCENE_SECONDS      how long a loop runs
    SCENE_SCALE        1 is the full size of the live heap
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import threading
import time

COLLECTOR = os.environ.get("SCENE_COLLECTOR", "")
SECONDS = float(os.environ.get("SCENE_SECONDS", "5"))
SCALE = float(os.environ.get("SCENE_SCALE", "1"))


def scaled(count: int) -> int:
    """A size of the live heap."""
    return max(1, int(count * SCALE))


def say(**facts: object) -> None:
    """One line for the runner."""
    print(json.dumps(facts), flush=True)


def skip(reason: str) -> None:
    """Ends the scenario: something that it needs is not here."""
    say(skip=reason)
    sys.exit(0)


def die_with_the_runner() -> None:
    """However the runner ends, this process does not outlive it."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


class Collections:
    """Every collection of this process, from the collector's callbacks: automatic ones, the agent's and the script's."""

    def __init__(self) -> None:
        self.in_flight = 0
        # Three numbers each (generation, pause, requests in flight) in an array: nothing for the collector.
        self._seen = array.array("d")
        self._began = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self._seen.extend((info["generation"], time.perf_counter() - self._began, self.in_flight))

    def clear(self) -> None:
        """Figures start anew."""
        self._seen = array.array("d")

    def summary(self) -> dict:
        """Count, those of them in requests, sum and longest pause, by generation and by place."""
        sums = {name: {"count": 0, "in_request": 0, "total_ms": 0.0, "max_ms": 0.0}
                for name in ("young", "middle", "full", "in_request", "in_gap")}
        for at in range(0, len(self._seen), 3):
            generation, pause, in_flight = self._seen[at : at + 3]
            kind = ("young", "middle", "full")[min(2, int(generation))]
            for into in (sums[kind], sums["in_request" if in_flight else "in_gap"]):
                into["count"] += 1
                into["in_request"] += in_flight > 0
                into["total_ms"] += pause * 1000
                into["max_ms"] = max(into["max_ms"], pause * 1000)
        return sums


collections = Collections()


def agent():
    """NeuroGC's package where it was injected. It is not imported: the plain contenders do not have it."""
    return sys.modules.get("neurogc")


def begin() -> None:
    """To be called before anything is built."""
    die_with_the_runner()
    if COLLECTOR in ("off", "each"):
        gc.disable()


def loaded() -> None:
    """To be called once everything that stays is built."""
    kind, _, numbers = COLLECTOR.partition(":")
    if kind == "freeze+threshold":
        gc.collect()
        gc.freeze()
        gc.set_threshold(*map(int, numbers.split(",")))
    elif kind == "thread":

        def collect_for_ever() -> None:
            while True:
                time.sleep(float(numbers))
                gc.collect()

        threading.Thread(target=collect_for_ever, daemon=True).start()
    elif kind not in ("", "off", "each"):
        sys.exit(f"there is no collector {COLLECTOR!r}")


def after_request() -> None:
    """To be called when a request is over."""
    if COLLECTOR == "each":
        gc.collect()


@contextlib.contextmanager
def request():
    """One request or step, where no adapter of NeuroGC marks it."""
    neurogc = agent()
    collections.in_flight += 1
    try:
        if neurogc is None:
            yield
        else:
            with neurogc.request():
                yield
    finally:
        collections.in_flight -= 1
    after_request()


def report() -> dict:
    """The collections since the figures started anew, the agent's status, and the garbage that was not collected."""
    seen = collections.summary()
    neurogc = agent()
    status = None
    if neurogc is not None:
        with contextlib.suppress(RuntimeError):
            status = neurogc.status()
    enabled = gc.isenabled()
    # What was frozen and has died since is garbage too.
    gc.unfreeze()
    return {"collections": seen, "neurogc": status, "enabled": enabled, "garbage": gc.collect()}


def mark() -> dict:
    """Figures start anew."""
    collections.clear()
    neurogc = agent()
    return {"neurogc": neurogc.status() if neurogc else None, "enabled": gc.isenabled()}


def serve_asgi(app, loop: str = "asyncio") -> None:
    """Serves an ASGI application with uvicorn until it is terminated."""
    import uvicorn

    async def counted(scope, receive, send):
        if scope["type"] != "http":
            return await app(scope, receive, send)
        words = {"/mark": mark, "/report": report}.get(scope["path"])
        if words is not None:
            body = json.dumps(words()).encode()
            length = (b"content-length", str(len(body)).encode())
            await send({"type": "http.response.start", "status": 200, "headers": [length]})
            return await send({"type": "http.response.body", "body": body})
        collections.in_flight += 1
        try:
            await app(scope, receive, send)
        finally:
            collections.in_flight -= 1
        after_request()

    config = uvicorn.Config(counted, loop=loop, log_level="warning", access_log=False, timeout_keep_alive=3600,
                            backlog=4096, lifespan="off")
    with listening() as listener:
        uvicorn.Server(config).run(sockets=[listener])


def listening() -> socket.socket:
    """A socket on a free port of this machine; the runner is told."""
    # asyncio turns Nagle's algorithm off only where the protocol is named, and 40 ms of delay are not our subject.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    say(ready=True, port=listener.getsockname()[1])
    return listener


def serve_plain(handle) -> None:
    """Serves `await handle(path) -> object` as JSON over HTTP/1.1, with nothing but the standard library."""
    import asyncio

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                words = {"/mark": mark, "/report": report}.get(path)
                if words is not None:
                    answer(writer, words())
                else:
                    with request():
                        answer(writer, await handle(path))
                await writer.drain()
                if b"onnection: close" in head:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(writer: asyncio.StreamWriter, value: object) -> None:
        body = json.dumps(value).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def serve() -> None:
        with listening() as listener:
            server = await asyncio.start_server(connection, sock=listener, backlog=4096)
            await server.serve_forever()

    asyncio.run(serve())


def run_loop(step, *, seconds: float = SECONDS, enough=lambda: None) -> None:
    """Repeats `step()` when the runner says so. A step may give its time in milliseconds, or {name: time} of programs.

    The loop ends early once `enough()` says why; the report says so.
    """
    say(ready=True)
    for word in sys.stdin:
        if word.strip() == "go":
            collections.clear()
            before = agent().status() if agent() else None
            times = array.array("d")
            programs: dict[str, list[float]] = {}
            began = time.perf_counter()
            why = None
            while time.perf_counter() - began < seconds and (why := enough()) is None:
                at = time.perf_counter()
                told = step()
                if isinstance(told, dict):
                    for name, spent in told.items():
                        programs.setdefault(name, []).append(spent)
                times.append(told if isinstance(told, float) else (time.perf_counter() - at) * 1000)
            lasted = time.perf_counter() - began
            say(done=True, seconds=lasted, steps_ms=[round(each, 4) for each in times], programs=programs, before=before,
                ended_early=why)
        elif word.strip() == "report":
            say(**report())

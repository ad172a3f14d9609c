"""An application that answers at once, and a thread beside it that stops the whole process with collections."""

import gc
import json
import threading
import time
import urllib.parse

import neurogc


def _stop_for(seconds):
    """How many numbers C code adds up in this time, with the GIL held."""
    began = time.perf_counter()
    sum(range(1_000_000))
    return int(1_000_000 * seconds / max(time.perf_counter() - began, 1e-4))


class _Slow:
    """An object in a cycle whose finalizer lets nothing else run."""

    def __init__(self, numbers):
        self.me, self.numbers = self, numbers

    def __del__(self):
        sum(range(self.numbers))


def stop(times, seconds, every):
    """Collections that take this long, at these intervals."""
    numbers = _stop_for(seconds)
    for _ in range(times):
        time.sleep(every)
        _Slow(numbers)
        gc.collect()


def answer(path):
    url = urllib.parse.urlsplit(path)
    if url.path == "/status":
        return json.dumps(neurogc.status()).encode()
    if url.path == "/stop":
        asked = dict(urllib.parse.parse_qsl(url.query))
        words = int(asked["times"]), float(asked["seconds"]), float(asked["every"])
        threading.Thread(target=stop, args=words, daemon=True).start()
    return b"pong"


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = answer(scope["path"] + "?" + scope["query_string"].decode())
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ, start_response):
    body = answer(environ["PATH_INFO"] + "?" + environ.get("QUERY_STRING", ""))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    import sys

    from werkzeug.serving import run_simple

    run_simple("127.0.0.1", int(sys.argv[1]), neurogc.wsgi.Middleware(wsgi), threaded=True)

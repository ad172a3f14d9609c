"""An application that answers at once, and a thread beside it that stops the whole process with collections."""

import gc
import json
import threading
import time
import urllib.parse

import neurogc


def _lasting(seconds):
    """A class whose objects take this long to finalize, in C and with the GIL held: no other thread runs meanwhile.

    The finalizer sorts two equal tuples of tuples, which compares all that is in them. One that is written in Python would
    let other threads run before the collection is over.
    """
    inner = [tuple([7] * 1000) for _ in range(2)]
    spans = []
    for _ in range(5):
        began = time.perf_counter()
        [(each,) * 2000 for each in inner].sort()
        spans.append(time.perf_counter() - began)
    outer = int(2000 * seconds / max(min(spans), 1e-4))
    return type("Slow", (), {"__del__": [(each,) * outer for each in inner].sort})


def stop(times, seconds, every):
    """Collections that take this long, at these intervals."""
    slow_class = _lasting(seconds)
    for _ in range(times):
        time.sleep(every)
        slow = slow_class()
        slow.me = slow
        del slow
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

"""A WSGI application without a framework."""

import time

import figures


def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/boom":
        raise RuntimeError("boom")
    if path == "/write":
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"written ")
        return [b"returned"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/figures":
        return [figures.now()]
    if path == "/stream":
        return (figures.line() for _ in range(5))
    if path == "/break":
        return _broken()
    if path == "/endless":
        return _endless()
    if path == "/together":
        figures.arrive()
        while not figures.all_there(4):
            time.sleep(0.005)
        return [figures.now()]
    if path == "/file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    return [b"pong"]


def _broken():
    yield b"first\n"
    raise RuntimeError("broken")


def _endless():
    while True:
        yield b"x" * 65536

"""The test application on Django, in one file: `app` for WSGI and `asgi_app` for ASGI."""

import asyncio
import sys
import time

import django
import figures
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.urls import path

settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="test", LOGGING_CONFIG=None)


def ping(request):
    return HttpResponse("pong")


def now(request):
    return HttpResponse(figures.now())


def boom(request):
    raise RuntimeError("boom")


def _over_asgi(request):
    return hasattr(request, "scope")


def stream(request):
    async def lines():
        for _ in range(5):
            yield figures.line()
            await asyncio.sleep(0)

    return StreamingHttpResponse(lines() if _over_asgi(request) else (figures.line() for _ in range(5)))


def broken(request):
    async def async_lines():
        yield b"first\n"
        raise RuntimeError("broken")

    def lines():
        yield b"first\n"
        raise RuntimeError("broken")

    return StreamingHttpResponse(async_lines() if _over_asgi(request) else lines())


def endless(request):
    async def async_lines():
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    def lines():
        while True:
            yield b"x" * 65536

    return StreamingHttpResponse(async_lines() if _over_asgi(request) else lines())


async def together(request):
    figures.arrive()
    while not figures.all_there(4):
        if _over_asgi(request):
            await asyncio.sleep(0.005)
        else:
            time.sleep(0.005)
    return HttpResponse(figures.now())


def file(request):
    return FileResponse(open(__file__, "rb"))


urlpatterns = [
    path("ping", ping),
    path("figures", now),
    path("boom", boom),
    path("stream", stream),
    path("break", broken),
    path("endless", endless),
    path("together", together),
    path("file", file),
]

django.setup()
app = get_wsgi_application()
asgi_app = get_asgi_application()

if __name__ == "__main__":
    from django.core.servers.basehttp import run

    run("127.0.0.1", int(sys.argv[1]), app, threading=True)

"""ASGI: a request lasts from its arrival to the last byte of its response. The agent finds out when it arrived.

Nothing here may form a reference cycle, because each request runs through it: a tool against garbage must make none.
"""

from ._native import Mark
from ._shortage import noticed

# Set in the scope by the layer that counts, so that a framework below a server does not count again.
COUNTED = "neurogc.counted"


class Middleware:
    """Counts the HTTP requests of an ASGI application; everything else passes through."""

    __slots__ = ("__weakref__", "app")

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or COUNTED in scope:
            return await self.app(scope, receive, send)
        scope[COUNTED] = True
        mark = Mark.asgi(scope)
        try:
            return await self.app(scope, receive, until_last_byte(send, mark))
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    def __getattr__(self, name):
        if name == "app":
            raise AttributeError(name)
        return getattr(self.app, name)

    def __repr__(self):
        return f"<neurogc.asgi.Middleware of {self.app!r}>"


def until_last_byte(send, mark):
    """A `send` that ends the mark once the last part of the response was taken over by the server."""

    def send_and_watch(message):
        if message["type"] == "http.response.body" and not message.get("more_body"):
            return _send_last(send, message, mark)
        return send(message)

    return send_and_watch


async def _send_last(send, message, mark):
    # If this fails, the application may still do something about it, so its end is the request's.
    await send(message)
    mark.end()


def counting(call):
    """The `__call__` of an application class, counting."""

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or COUNTED in scope:
            return await call(self, scope, receive, send)
        scope[COUNTED] = True
        mark = Mark.asgi(scope)
        try:
            return await call(self, scope, receive, until_last_byte(send, mark))
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return __call__

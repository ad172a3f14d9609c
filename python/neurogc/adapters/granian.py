"""granian: the callback that it builds around an application, in each of its three interfaces."""

from .. import asgi, wsgi
from .._native import Mark
from .._shortage import noticed


def adapt(module, replace):
    replace(module, "_callback_wrapper", _BY_INTERFACE[module.__name__])


def _counting(middleware):
    def make(wrap):
        def wrap_counting(callback, *args, **kwargs):
            return wrap(middleware(callback), *args, **kwargs)

        return wrap_counting

    return make


def _counting_rsgi(callback):
    # RSGI has no last byte to see: streams are written before the application returns.
    async def counted(scope, protocol):
        if scope.proto != "http":
            return await callback(scope, protocol)
        mark = Mark.asgi(_as_asgi(scope))
        try:
            return await callback(scope, protocol)
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return counted


def _as_asgi(scope):
    """What a mark wants to know, in the form of ASGI."""
    host, _, port = scope.client.rpartition(":")
    headers = scope.headers
    known = ((name, headers.get(name)) for name in ("traceparent", "x-request-start", "x-queue-start"))
    return {
        "client": (host.strip("[]"), int(port) if port.isdecimal() else 0),
        "path": scope.path,
        "headers": [(name.encode(), value.encode()) for name, value in known if value],
    }


_BY_INTERFACE = {
    "granian.asgi": _counting(asgi.Middleware),
    "granian.rsgi": _counting(_counting_rsgi),
    "granian.wsgi": _counting(wsgi.Middleware),
}

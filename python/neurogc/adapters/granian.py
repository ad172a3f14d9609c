"""granian: the callback that it builds around an application, in each of its three interfaces."""

from .. import asgi, wsgi
from .._native import Mark


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
        mark = Mark()
        try:
            return await callback(scope, protocol)
        finally:
            mark.end()

    return counted


_BY_INTERFACE = {
    "granian.asgi": _counting(asgi.Middleware),
    "granian.rsgi": _counting(_counting_rsgi),
    "granian.wsgi": _counting(wsgi.Middleware),
}

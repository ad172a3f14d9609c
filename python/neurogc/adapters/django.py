"""Django: its two handlers, for servers that have no adapter."""

from .. import asgi, wsgi


def adapt(module, replace):
    if module.__name__.endswith(".asgi"):
        replace(module.ASGIHandler, "__call__", asgi.counting)
    else:
        replace(module.WSGIHandler, "__call__", wsgi.counting)

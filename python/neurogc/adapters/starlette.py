"""Starlette and FastAPI: the application class, for servers that have no adapter."""

from ..asgi import counting


def adapt(module, replace):
    replace(module.Starlette, "__call__", counting)

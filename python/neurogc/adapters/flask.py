"""Flask: the application class, for servers that have no adapter."""

from ..wsgi import counting


def adapt(module, replace):
    replace(module.Flask, "__call__", counting)

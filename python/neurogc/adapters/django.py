"""Django: its two handlers, for servers that have no adapter."""

import sys

from .. import asgi, wsgi
from .._shortage import noticed


def adapt(module, replace):
    if module.__name__.endswith(".asgi"):
        replace(module.ASGIHandler, "__call__", asgi.counting)
    else:
        replace(module.WSGIHandler, "__call__", wsgi.counting)
    from django.core.signals import got_request_exception

    # There is no function to replace: taking it out again is not needed, because without an agent it is idle.
    got_request_exception.connect(_error, weak=False, dispatch_uid="neurogc")


def _error(**_):
    if isinstance(sys.exc_info()[1], MemoryError):
        noticed()

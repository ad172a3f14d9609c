"""Bridges that run a WSGI application under an ASGI server: who counted the one has counted the other."""

from ..asgi import COUNTED as COUNTED_SCOPE
from ..wsgi import COUNTED


def adapt(module, replace):
    if module.__name__ == "asgiref.wsgi":
        replace(module.WsgiToAsgiInstance, "build_environ", _handing_on(1))
    else:
        replace(module, "build_environ", _handing_on(0))


def _handing_on(position):
    def make(build):
        def build_environ(*args, **kwargs):
            environ = build(*args, **kwargs)
            scope = args[position] if len(args) > position else kwargs.get("scope", ())
            if COUNTED_SCOPE in scope:
                environ[COUNTED] = True
            return environ

        return build_environ

    return make

"""hypercorn: the application inside its wrappers, one for ASGI and one for WSGI."""

from .. import asgi, wsgi


def adapt(module, replace):
    def counting(middleware):
        def make(initialise):
            def __init__(self, app, *args, **kwargs):
                initialise(self, middleware(app), *args, **kwargs)

            return __init__

        return make

    replace(module.ASGIWrapper, "__init__", counting(asgi.Middleware))
    replace(module.WSGIWrapper, "__init__", counting(wsgi.Middleware))

"""WSGI: a request lasts from its arrival until the server is through with the body that the application returned.

Nothing here may form a reference cycle, because each request runs through it.
"""

from ._native import Mark
from ._shortage import noticed

# Set in the environ by the layer that counts, so that a framework below a server does not count again.
COUNTED = "neurogc.counted"

# Set in the environ by the adapter of a framework: the route that it found, or None.
ROUTE = "neurogc.route"


class Middleware:
    """Counts the requests of a WSGI application."""

    __slots__ = ("__weakref__", "app")

    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        if COUNTED in environ:
            return self.app(environ, start_response)
        return _count(environ, self.app, environ, start_response)

    def __getattr__(self, name):
        if name == "app":
            raise AttributeError(name)
        return getattr(self.app, name)

    def __repr__(self):
        return f"<neurogc.wsgi.Middleware of {self.app!r}>"


def counting(call):
    """The `__call__` of an application class, counting."""

    def __call__(self, environ, start_response):
        if COUNTED in environ:
            return call(self, environ, start_response)
        return _count(environ, call, self, environ, start_response)

    return __call__


def _count(environ, call, *args):
    environ[COUNTED] = True
    mark = Mark.wsgi(environ)
    try:
        body = call(*args)
        mark.answered(environ)
        return _watched(body, environ, mark)
    except MemoryError:
        noticed()
        mark.end()
        raise
    except BaseException:
        mark.end()
        raise


def _watched(body, environ, mark):
    """The body, such that the mark ends with it: when it is closed, used up or forgotten."""
    if type(body) is list:
        return _Chunks(body, mark)
    file_wrapper = environ.get("wsgi.file_wrapper")
    if file_wrapper is not None:
        # The server sends such a body by sendfile() as long as it is the very object that it expects.
        if isinstance(file_wrapper, type):
            if isinstance(body, file_wrapper):
                return _tied(body, mark)
        elif hasattr(body, "read"):
            return _tied(body, mark)
    if not hasattr(body, "__iter__"):
        # A server's private sign ("already handled"), or a mistake that the server has to name.
        mark.end()
        return body
    return (_SizedBody if hasattr(body, "__len__") else _Body)(body, mark)


def _tied(body, mark):
    """Ties the mark to the life of the body, where the body lets itself be tied to."""
    try:
        body._neurogc_mark = mark
    except (AttributeError, TypeError):
        mark.end()
    return body


class _Chunks(list):
    """A list as the body: servers look at its length and at its being a list."""

    __slots__ = ("_mark",)

    def __init__(self, body, mark):
        list.__init__(self, body)
        self._mark = mark

    def close(self):
        self._mark.end()


class _Body:
    """Any other iterable as the body."""

    __slots__ = ("_body", "_mark", "_next")

    def __init__(self, body, mark):
        self._body = body
        self._mark = mark
        self._next = iter(body).__next__

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._next()
        except MemoryError:
            noticed()
            self._mark.end()
            raise
        except BaseException:
            # Used up or broken: nothing follows either way.
            self._mark.end()
            raise

    def close(self):
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._mark.end()

    def __getattr__(self, name):
        if name == "_body":
            raise AttributeError(name)
        return getattr(self._body, name)


class _SizedBody(_Body):
    """An iterable of known length: a server may make a Content-Length of it."""

    __slots__ = ()

    def __len__(self):
        return len(self._body)

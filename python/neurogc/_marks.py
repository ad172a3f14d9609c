"""`request` and `step`: what a program marks by hand, where no adapter does it."""

import sys

from ._native import Mark
from ._shortage import noticed

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


class _Marked:
    """A context manager and a decorator; every use is one request of its own.

    Threads and tasks may share one. Which use ends is told by the frame of the `with` statement.
    """

    __slots__ = ("_marks", "name")

    def __init__(self, name=None):
        self.name = name
        # By frame, the innermost last.
        self._marks = {}

    def __enter__(self):
        self._marks.setdefault(_callers_frame(), []).append(Mark(self.name))
        return self

    def __exit__(self, *error):
        self._end(_callers_frame(), *error)

    async def __aenter__(self):
        self._marks.setdefault(_callers_frame(), []).append(Mark(self.name))
        return self

    async def __aexit__(self, *error):
        self._end(_callers_frame(), *error)

    def _end(self, frame, _kind=None, error=None, _traceback=None):
        if isinstance(error, MemoryError):
            noticed()
        marks = self._marks.pop(frame, None)
        if marks is None:
            # Begun and ended by different functions, as those of an `ExitStack`: the last one.
            try:
                frame, marks = self._marks.popitem()
            except KeyError:
                return
        mark = marks.pop()
        if marks:
            self._marks[frame] = marks
        mark.end()

    def __call__(self, function):
        flags = _code_flags(function)
        for flag, marked in _BY_FLAG:
            if flags & flag:
                return _dressed(marked(function, self.name), function)
        return _dressed(_marked_function(function, self.name), function)


def request(name=None):
    """One request: `with request():`, `async with request():` or `@request()` on any kind of function.

    A generator is a request from its first value to its end. The name is that of its route in a status report.
    """
    return _Marked()(name) if callable(name) else _Marked(name)


def step(name=None):
    """The same as `request`, for a training step or one job of a batch."""
    return request(name)


def _callers_frame():
    """A number of the frame that has called the caller; it is that frame's alone for as long as it runs or waits."""
    try:
        return id(sys._getframe(2))
    except ValueError:
        return None


def _marked_function(function, name):
    def marked(*args, **kwargs):
        mark = Mark(name)
        try:
            return function(*args, **kwargs)
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return marked


def _marked_coroutine(function, name):
    async def marked(*args, **kwargs):
        mark = Mark(name)
        try:
            return await function(*args, **kwargs)
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return marked


def _marked_generator(function, name):
    def marked(*args, **kwargs):
        mark = Mark(name)
        try:
            return (yield from function(*args, **kwargs))
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return marked


def _marked_async_generator(function, name):
    async def marked(*args, **kwargs):
        mark = Mark(name)
        inner = function(*args, **kwargs)
        try:
            value = await inner.__anext__()
            while True:
                # There is no `yield from` here, so what is sent and thrown in is handed on by hand.
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return marked


_BY_FLAG = (
    (_COROUTINE, _marked_coroutine),
    (_GENERATOR, _marked_generator),
    (_ASYNC_GENERATOR, _marked_async_generator),
)


def _code_flags(function):
    """What kind of function it is, without the cost of importing `inspect`; partials and methods are looked into."""
    for _ in range(16):
        code = getattr(function, "__code__", None)
        if code is not None:
            return code.co_flags
        inner = getattr(function, "func", None) or getattr(function, "__func__", None)
        if inner is None and not isinstance(function, type):
            inner = getattr(type(function), "__call__", None)
        if inner is None or inner is function:
            break
        function = inner
    return 0


def _dressed(marked, function):
    """Gives the wrapper the name, the documentation and the signature of the function."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(marked, name, getattr(function, name))
        except (AttributeError, TypeError):
            pass
    marked.__dict__.update(getattr(function, "__dict__", {}))
    marked.__wrapped__ = function
    return marked

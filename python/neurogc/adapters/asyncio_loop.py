"""asyncio: tells the agent of each turn of an event loop, and lets it collect where the loop has nothing to do.

The selector of a loop gets a subclass of its own class, in place: `selectors.DefaultSelector` and every selector
that no event loop owns stay as they are. Whatever is collected here runs in the thread of that loop.
"""

import selectors
from asyncio import events
from time import monotonic
from weakref import WeakSet

from .._native import agent

progress = agent.progress

# How long a loop sleeps at most before it looks whether something is to be done in its thread, in seconds.
BEAT = 1.0


# The selectors that were given our class.
_watched = WeakSet()


def adapt(module, replace):
    def watching(initialise):
        def __init__(self, *args, **kwargs):
            initialise(self, *args, **kwargs)
            _watch(self)

        return __init__

    replace(module.BaseSelectorEventLoop, "__init__", watching)
    running = events._get_running_loop()
    if isinstance(running, module.BaseSelectorEventLoop):
        _watch(running)


def _watch(loop):
    # A selector of any other class belongs to other code (a test, a framework) and is left alone.
    if type(getattr(loop, "_selector", None)) is selectors.EpollSelector:
        loop._selector.__class__ = WatchedSelector
        _watched.add(loop._selector)


def release():
    """Gives every selector its own class back. One that sleeps notices within a beat."""
    for selector in list(_watched):
        if type(selector) is WatchedSelector:
            selector.__class__ = selectors.EpollSelector
    _watched.clear()


class WatchedSelector(selectors.EpollSelector):
    """The selector of a loop: it is asked for events each time that the loop has run what was ready."""

    def select(self, timeout=None):
        select = super().select
        due = progress()
        if timeout is not None and timeout <= 0:
            ready = select(timeout)
            progress()
            return ready
        end = None if timeout is None else monotonic() + timeout
        while True:
            while due:
                # Something is due and the loop is about to sleep, unless an event has come meanwhile. Asking for
                # events lets other threads have the GIL.
                ready = select(0)
                if ready:
                    progress()
                    return ready
                due = agent.gap() and (end is None or monotonic() < end)
            rest = BEAT if end is None else min(BEAT, max(end - monotonic(), 0))
            ready = select(rest)
            if ready or (end is not None and monotonic() >= end) or type(self) is not WatchedSelector:
                progress()
                return ready
            due = agent.is_due()

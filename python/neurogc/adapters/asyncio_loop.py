"""asyncio: tells the agent of each turn of an event loop, and lets it collect where the loop has nothing to do.

The selector of a loop gets a subclass of its own class, in place: `selectors.DefaultSelector` and every selector
that no event loop owns stay as they are.
"""

import selectors
from asyncio import events
from weakref import ref

from .._native import agent

progress = agent.progress


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
    # A selector of any other class is somebody's own (a test's, a framework's).
    if type(getattr(loop, "_selector", None)) is selectors.EpollSelector:
        loop._selector.__class__ = _WatchedSelector
        agent.event_loop_runs(ref(loop))


class _WatchedSelector(selectors.EpollSelector):
    def select(self, timeout=None):
        if progress() and timeout != 0:
            # Something is due, and the loop is about to sleep; unless somebody has knocked meanwhile.
            ready = super().select(0)
            if ready:
                progress()
                return ready
            agent.collect_posted()
        ready = super().select(timeout)
        progress()
        return ready

"""Heap dumps by themselves: when a thread or a request ends with a MemoryError, and on a signal."""

import contextlib
import os
import signal
import sys
import threading
from time import monotonic

from . import _native, _shortage, heap

_before = {}
_signal = 0

# A MemoryError passes through several places, and several threads may have one at the same time. After a dump for one of
# them there is none for this long, in seconds.
_REST = 10.0
_dumping = threading.Lock()
_rest_ends = 0.0


def watch():
    """Put hooks in place as the settings say. A handler of the program's own is left alone."""
    global _signal
    on_oom, number, _ = _native.agent.dump_triggers()
    if on_oom and not _before:
        _before.update(main=sys.excepthook, threads=threading.excepthook)
        sys.excepthook = _main_ends
        threading.excepthook = _thread_ends
        os.register_at_fork(after_in_child=_forked)
    _shortage.watcher = _dump if on_oom else None
    if not number or number == _signal or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, _signalled)
        _signal = number
    else:
        name = signal.Signals(number).name
        _native.agent.degrade(f"no heap dumps on {name}: the program has a handler of its own for it")


def unwatch():
    """Take back the signal, unless the program has taken it meanwhile. The hooks stay: others may be on top of them."""
    global _signal
    _shortage.watcher = None
    if _signal and threading.current_thread() is threading.main_thread():
        if signal.getsignal(_signal) is _signalled:
            signal.signal(_signal, signal.SIG_DFL)
        _signal = 0


def has_hooks():
    """Whether hooks of ours are, or may be, in place."""
    return bool(_before)


def _main_ends(kind, error, traceback):
    try:
        if isinstance(kind, type) and issubclass(kind, MemoryError):
            _shortage.noticed()
    finally:
        _before["main"](kind, error, traceback)


def _thread_ends(ended):
    try:
        if isinstance(ended.exc_type, type) and issubclass(ended.exc_type, MemoryError):
            _shortage.noticed()
    finally:
        _before["threads"](ended)


def _signalled(number, frame):
    # The program goes on: the clone is made, and looked after, at moments when this thread has nothing else to do.
    _native.agent.dump_soon()


def _dump():
    """Write one, unless there are enough. What goes wrong is told in the status report only."""
    global _rest_ends
    dumping = _dumping
    if not dumping.acquire(blocking=False):
        return
    try:
        path = _native.agent.next_dump() if monotonic() >= _rest_ends else None
        if path is not None:
            heap._write(path, text=_native.agent.dump_triggers()[2], urgent=True)
            _rest_ends = monotonic() + _REST
    except Exception as error:
        with contextlib.suppress(Exception):
            _native.agent.degrade(f"a heap dump could not be written: {error}")
    finally:
        dumping.release()


def _forked():
    # Another thread of the parent may have been writing one.
    global _dumping
    _dumping = threading.Lock()

"""Heap dumps by themselves: when a thread ends with a MemoryError, and on a signal."""

import signal
import sys
import threading

from . import _native, heap

_before = {}


def watch():
    """Put hooks in place as the settings say."""
    on_oom, number, _ = _native.agent.dump_triggers()
    if on_oom and not _before:
        _before.update(main=sys.excepthook, threads=threading.excepthook)
        sys.excepthook = _main_ends
        threading.excepthook = _thread_ends
    if number and threading.current_thread() is threading.main_thread():
        signal.signal(number, _signalled)


def _main_ends(kind, error, traceback):
    if isinstance(kind, type) and issubclass(kind, MemoryError):
        _dump(urgent=True)
    _before["main"](kind, error, traceback)


def _thread_ends(ended):
    if isinstance(ended.exc_type, type) and issubclass(ended.exc_type, MemoryError):
        _dump(urgent=True)
    _before["threads"](ended)


def _signalled(number, frame):
    _dump(urgent=False)


def _dump(urgent):
    """Write one, unless there are enough. What goes wrong is told in the status report only."""
    try:
        path = _native.agent.next_dump()
        if path is not None:
            heap._write(path, text=True, urgent=urgent)
    except Exception as error:
        _native.agent.degrade(f"a heap dump could not be written: {error}")

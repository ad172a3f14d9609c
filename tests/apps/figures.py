"""What the test applications share: their view of themselves, and meeting points for concurrent requests."""

import json
import os
import threading

import neurogc

background = {"running": 0}
_meeting = {"came": 0}
_lock = threading.Lock()


def now():
    """Requests, process and background work, as JSON."""
    status = neurogc.status()
    return json.dumps({**status["requests"], "pid": os.getpid(), "background": background["running"],
                       "degraded": status["degraded"]}).encode()


def line():
    return now() + b"\n"


def arrive():
    with _lock:
        _meeting["came"] += 1


def all_there(count):
    return _meeting["came"] >= count

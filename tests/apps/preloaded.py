"""A WSGI application with a heap that is worth sharing, for servers that load it before they fork."""

import gc
import json
import os


class Record:
    """Two tracked objects and a cycle, so that the collector has to look at it."""

    def __init__(self):
        self.links = [self]


RECORDS = [Record() for _ in range(150_000)]
SESSIONS = [None] * 200


def memory():
    """Bytes that this process has for itself."""
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024


def app(environ, start_response):
    path = environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "application/json")])
    if path == "/collect":
        before = memory()
        gc.collect()
        return [json.dumps({"grown": memory() - before}).encode()]
    if path == "/heap":
        found = {"pid": os.getpid(), "parent": os.getppid(), "frozen": gc.get_freeze_count(), "stats": gc.get_stats()}
        return [json.dumps(found).encode()]
    if path == "/session":
        before = gc.get_stats()[2]["collections"]
        SESSIONS[hash(environ.get("REMOTE_PORT")) % 200] = [Record() for _ in range(400)]
        return [str(gc.get_stats()[2]["collections"] - before).encode()]
    return [b"pong"]

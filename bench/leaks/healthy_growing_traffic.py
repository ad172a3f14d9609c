"""More and more requests, each with a session that ends after ten seconds: memory follows the load, up and down."""

import contextlib
import time
from collections import deque

from pace import rounds

KIND = None

try:
    from neurogc import request
except ImportError:
    request = contextlib.nullcontext

began = time.monotonic()
sessions = deque()
for number in rounds(50):
    now = time.monotonic()
    # The load rises for four minutes and falls for two.
    phase = (now - began) % 360
    load = phase / 240 if phase < 240 else (360 - phase) / 120
    for _ in range(1 + int(9 * load)):
        with request("/session"):
            sessions.append((now, bytes(6000)))
    while sessions[0][0] < now - 10:
        sessions.popleft()

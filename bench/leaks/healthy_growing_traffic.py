"""More and more sessions at a time, each with its memory; they end when the load goes down again."""

import contextlib
import time

from pace import rounds

KIND = None

try:
    from neurogc import request
except ImportError:
    request = contextlib.nullcontext

began = time.monotonic()
sessions = {}
for number in rounds(200):
    # The load rises for four minutes and falls for two.
    phase = (time.monotonic() - began) % 360
    load = phase / 240 if phase < 240 else (360 - phase) / 120
    with request("/session"):
        sessions[number % max(int(8000 * load), 100)] = bytes(6000)
    for stale in [key for key in list(sessions)[:20] if key >= 8000 * load]:
        del sessions[stale]

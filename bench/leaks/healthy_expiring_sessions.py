"""Sessions that expire after twenty seconds."""

import time

from pace import rounds

KIND = None

sessions = {}
for number in rounds(300):
    now = time.monotonic()
    sessions[number] = (now, bytes(2000))
    while sessions and next(iter(sessions.values()))[0] < now - 20:
        del sessions[next(iter(sessions))]

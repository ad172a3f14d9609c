"""A day of two minutes: memory follows the sine of the time."""

import math
import time

from pace import rounds

KIND = None

began = time.monotonic()
sessions = []
for number in rounds(400):
    wanted = int(6000 * (1 - math.cos((time.monotonic() - began) / 120 * 2 * math.pi)) / 2)
    if len(sessions) < wanted:
        sessions.extend(bytes(3000) for _ in range(min(wanted - len(sessions), 20)))
    else:
        del sessions[wanted:]

"""The clock of these programs: so many rounds a second, for as long as the command line says (seconds; default: no end)."""

import sys
import time


def rounds(per_second):
    """Numbers from 0 on, at this rate. Rounds that are late are made up for, a few at a time."""
    began = time.monotonic()
    end = began + float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    number = 0
    while (now := time.monotonic()) < end:
        due = int((now - began) * per_second) + 1
        for _ in range(min(due - number, 50)):
            yield number
            number += 1
        time.sleep(min(max(began + number / per_second - time.monotonic(), 0.001), 0.05))

"""Timers that are started for each request and wait for an hour."""

import threading

from pace import rounds

KIND = "threads"
HOLDER = None

threading.stack_size(256 * 1024)
for number in rounds(6):
    timer = threading.Timer(3600, print, args=(bytes(40_000),))  # the leak
    timer.daemon = True
    timer.start()  # the leak

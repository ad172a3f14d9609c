"""A model is loaded after a while: memory rises once."""

import time

from pace import rounds

KIND = None

began = time.monotonic()
model = None
for number in rounds(100):
    if model is None and time.monotonic() - began > 40:
        model = [bytes(1_000_000) for _ in range(60)]
    bytes(10_000)

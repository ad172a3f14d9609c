"""Counters per key, of which there are many, but no more than so many."""

import random

from pace import rounds

KIND = None

counters = {}
for number in rounds(500):
    key = f"key-{random.randrange(15_000)}"
    count, text = counters.get(key, (0, bytes(400)))
    counters[key] = (count + 1, text)

"""Waves of small objects: one of every hundred stays, and with it the arena that it lies in."""

from pace import rounds

KIND = "pymalloc_pinned"
HOLDER = None

kept = []
for number in rounds(2):
    wave = [("record", index, index * 1.5) for index in range(30_000)]  # the leak
    kept.extend(wave[::400])  # the leak
    if len(kept) > 40_000:
        del kept[:10_000]
    del wave

"""A large job at the beginning: one object of some thousand stays, and with it the arena that it lies in."""

from pace import rounds

KIND = "pymalloc_pinned"
HOLDER = None

wave = [("record", index, index * 1.5) for index in range(3_000_000)]  # the leak
kept = wave[::4000]
del wave
for number in rounds(100):
    [("row", index) for index in range(200)]

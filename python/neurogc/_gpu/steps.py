"""The large blocks at the end of a recent step: what an error finds beside them was allocated since.

The allocator gives all its blocks for that, which takes from half a millisecond on. So it is not asked at every step, but as often
as keeps the share of the program's time that it takes below one in so many. A block that was freed and allocated again at the same
place, with the same size, is not told apart.
"""

from time import perf_counter

from . import allocator
from .blocks import Blocks

_RARITY = 500

# Blocks below this size are not compared, and no more of the larger ones are kept than this.
_LEAST = 1 << 20
_MOST = 4096

_ended = 0
_due = 0.0
_kept = None


class Kept:
    """The blocks at the end of a step: sizes by address, of all that have at least a size."""

    __slots__ = ("least", "sizes", "step")

    def __init__(self, step, blocks):
        rows = blocks.at_least(_LEAST)
        self.step = step
        self.least = _LEAST if len(rows) <= _MOST else rows[_MOST - 1][0] + 1
        self.sizes = {start: size for size, start in rows if size >= self.least}


def ended():
    """A step has ended in the calling thread."""
    global _ended, _due, _kept
    _ended += 1
    began = perf_counter()
    if began < _due or allocator.is_capturing() or allocator.has_history():
        return
    _kept = Kept(_ended, Blocks(allocator.segments()))
    now = perf_counter()
    _due = now + _RARITY * (now - began)


def kept():
    """What is known of the latest step for which blocks were read, or None; and how many steps have ended."""
    return _kept, _ended

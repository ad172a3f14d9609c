"""What is kept of recent steps for a report on an error: allocated bytes and peaks, and the large blocks at the end of one: what
an error finds beside them was allocated since.

The allocator gives all its blocks for that, which takes from half a millisecond on. So it is not asked at every step, but as often
as keeps the share of the program's time that it takes below one in so many. A block that was freed and allocated again at the same
place, with the same size, is not told apart.
"""

from collections import deque
from time import perf_counter

from . import allocator
from .blocks import Blocks

_RARITY = 500

# Blocks below this size are not compared, and no more of the larger ones are kept than this.
_LEAST = 1 << 20
_MOST = 4096

# Steps of a device that are kept.
_RECENT = 8

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


class Peaks:
    """Allocated bytes of a device at the ends of the latest steps that were read, and the most that one has taken meanwhile."""

    __slots__ = ("failed", "need", "rows")

    def __init__(self):
        self.rows = deque(maxlen=_RECENT)
        # An error fell into the present step: its peak is no step's.
        self.failed = False
        # The most that a step had beside what was there when it began; 0 before the second one.
        self.need = 0

    def note(self, step, allocated, peak):
        """A step has ended. PyTorch's peak is that of the whole run: it rose in this step, or the step had less."""
        if self.rows and peak != self.rows[-1][2] and not self.failed:
            self.need = max(self.need, peak - self.rows[-1][1])
        self.failed = False
        self.rows.append((step, allocated, peak))

    def stays(self):
        """What was there at the end of the latest step."""
        return self.rows[-1][1] if self.rows else 0

    def report(self):
        return {
            "need_bytes": self.need,
            "stays_bytes": self.stays(),
            "recent": [dict(zip(("step", "allocated_bytes", "peak_bytes"), row, strict=True)) for row in self.rows],
        }


_peaks = {}


def noted(device, allocated, peak):
    """The figures of a device at the end of the step that has ended last."""
    _peaks.setdefault(device, Peaks()).note(_ended, allocated, peak)


def peaks(device):
    """What is known of the latest steps on a device."""
    return _peaks.get(device) or Peaks()


def ended():
    """A step has ended in the calling thread."""
    global _ended, _due, _kept
    _ended += 1
    began = perf_counter()
    if began < _due or allocator.is_capturing() or allocator.has_history() is None:
        return
    try:
        _kept = Kept(_ended, Blocks(allocator.segments()))
    except allocator.Unasked:
        # What is known of an earlier step stays.
        pass
    now = perf_counter()
    _due = now + _RARITY * (now - began)


def kept():
    """What is known of the latest step for which blocks were read, or None; and how many steps have ended."""
    return _kept, _ended

"""Memory of GPUs, as PyTorch's allocator tells it: figures at the ends of steps and once a second, who holds the memory,
and reports on errors "CUDA out of memory".

Everything that is asked of PyTorch is in `allocator`. Nothing here runs before the program has begun to use a GPU, no error
of ours reaches the program, and no tensor is kept.
"""

import json
from time import monotonic, perf_counter

from .._native import agent
from . import allocator, steps

# Figures of all devices, and of their cards, are read no more often than this, in seconds.
_EVERY = 1.0

# How long a look at the holders may take, in seconds: one that was asked for, and one of our own because memory grows.
_ASKED = 5.0
_OWN = 0.5

# Figures are read at the end of each of the first steps, and as long as memory grows; later as seldom as keeps the share of
# the program's time that it takes below one in so many.
_FIRST = 128
_RARITY = 250

_left = _FIRST
_due = 0.0
_is_on = False
_looked = 0.0
_devices = ()
# What was read last, by device.
_read = {}


def loaded():
    """PyTorch has been loaded. No GPU is used yet, unless the agent came late."""
    try:
        allocator.watch_saved()
    except Exception as error:
        agent.degrade(f"what graphs keep for the backward pass is not known: {type(error).__name__}: {error}"[:300])


def start():
    """The program has begun to use a GPU: figures are read from now on."""
    global _is_on
    if _is_on:
        return
    try:
        from . import oom

        agent.gpu_watch(look, explain)
        oom.watch()
        _is_on = True
    except Exception as error:
        _give_up(error)


def step_ended():
    """An optimizer's step has ended in the calling thread."""
    global _left, _due
    if not _is_on:
        return
    try:
        began = perf_counter()
        if _left <= 0 and began < _due:
            agent.gpu_step(False)
            steps.ended()
            return
        if monotonic() - _looked >= _EVERY:
            look()
            if not _is_on:
                return
        else:
            for device in _devices:
                _read[device] = allocator.figures(device)
                agent.gpu_figures(device, _read[device])
        is_wanted, grows = agent.gpu_step(True)
        _left = max(_left - 1, 16 if grows else 0)
        now = perf_counter()
        _due = now + _RARITY * (now - began)
        steps.ended()
        for device in _devices:
            steps.noted(device, _read[device][0], _read[device][5])
        if is_wanted:
            _look_because_it_grows()
    except Exception as error:
        _give_up(error)


def look():
    """Reads the figures of all devices in use, of their cards and of pinned memory."""
    global _looked, _devices
    if not _is_on:
        return
    try:
        if not allocator.is_ready():
            return
        found = {device: allocator.figures(device) for device in allocator.devices()}
        # One whose memory the program has given back stays in the list.
        _devices = tuple(device for device, figures in found.items() if any(figures) or device in _devices)
        for device in _devices:
            _read[device] = found[device]
            agent.gpu_figures(device, found[device])
            card = allocator.card(device)
            if card is not None:
                agent.gpu_card(device, *card)
        agent.gpu_pinned(allocator.pinned())
        _looked = monotonic()
    except Exception as error:
        _give_up(error)


def explain():
    """Who holds the memory now, as JSON."""
    if not allocator.is_ready():
        raise RuntimeError("the process has not used a GPU")
    return _look_at_holders(_ASKED, True)


def _look_because_it_grows():
    try:
        agent.gpu_holders(_look_at_holders(_OWN, False))
    except allocator.Unasked:
        # The verdict says that the holder is not known.
        pass


def _look_at_holders(seconds, whole):
    from . import holders

    return json.dumps(holders.report(seconds, whole))


def _give_up(error):
    """A version of PyTorch that is not known here: nothing is read any more, and the status report says why."""
    global _is_on
    _is_on = False
    agent.degrade(f"memory of GPUs is not watched any more: {type(error).__name__}: {error}"[:300])

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

# The driver is asked for other processes no more often than this, in seconds, and for no more than one in so many of the time.
_OTHERS_EVERY = 5.0
_OTHERS_RARITY = 1000

_left = _FIRST
_due = 0.0
_is_on = False
_looked = 0.0
_others_due = 0.0
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
        _is_on = True
        _part("ooms", oom.watch)
    except Exception as error:
        _give_up(error)


# What is asked of PyTorch, each by itself: a version, or an allocator that the program has chosen, may not have all of it.
_PARTS = {
    "figures": "memory of GPUs is not watched any more",
    "blocks": "blocks of the allocator are not read at the ends of steps any more",
    "card": "the memory of whole cards is not read any more",
    "pinned": "pinned memory is not read any more",
    "ooms": "there will be no reports on errors \"CUDA out of memory\"",
    "holders": "what holds the memory of GPUs is not looked at any more",
}
_off = set()


def _part(name, function, *arguments):
    """What a function gives; None where it fails: then this part is never asked again, and the status report says why."""
    if name in _off:
        return None
    try:
        return function(*arguments)
    except Exception as error:
        _off.add(name)
        agent.degrade(f"{_PARTS[name]}: {type(error).__name__}: {error}"[:300])
        return None


def step_ended():
    """An optimizer's step has ended in the calling thread."""
    global _left, _due
    if not _is_on:
        return
    try:
        began = perf_counter()
        if (_left <= 0 and began < _due) or "figures" in _off:
            agent.gpu_step(False)
            _part("blocks", steps.ended)
            return
        if monotonic() - _looked >= _EVERY:
            look()
        else:
            _part("figures", _figures, _devices)
        is_wanted, grows = agent.gpu_step("figures" not in _off)
        _left = max(_left - 1, 16 if grows else 0)
        now = perf_counter()
        _due = now + _RARITY * (now - began)
        _part("blocks", steps.ended)
        for device in _devices:
            if device in _read:
                steps.noted(device, _read[device][0], _read[device][5])
        if is_wanted:
            _part("holders", _look_because_it_grows)
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
        _part("figures", _figures, allocator.devices())
        # One whose memory the program has given back stays in the list.
        _devices = tuple(_read) if "figures" not in _off else (allocator.current(),)
        for device in _devices:
            card = _part("card", allocator.card, device)
            if card is not None:
                agent.gpu_card(device, *card)
        agent.gpu_pinned(_part("pinned", allocator.pinned))
        _look_for_others()
        _looked = monotonic()
    except Exception as error:
        _give_up(error)


def _figures(devices):
    """Reads the figures of devices: of those that have ever had any."""
    for device in devices:
        figures = allocator.figures(device)
        if any(figures) or device in _read:
            _read[device] = figures
            agent.gpu_figures(device, figures)


def _look_for_others():
    """Asks the driver who else is on the cards, as seldom as its answer takes time."""
    global _others_due
    began = perf_counter()
    if began < _others_due:
        return
    from . import cards

    for device in _devices:
        agent.gpu_others(device, cards.others(device, _read[device][1] if device in _read else 0))
    now = perf_counter()
    _others_due = now + max(_OTHERS_EVERY, _OTHERS_RARITY * (now - began))


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
    """Something is not as it should be with the agent itself: nothing is read any more, and the status report says why."""
    global _is_on
    _is_on = False
    agent.degrade(f"memory of GPUs is not watched any more: {type(error).__name__}: {error}"[:300])

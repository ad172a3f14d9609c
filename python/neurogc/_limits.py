"""What the marks of tests say: sizes, durations, and errors that name the test and the remedy."""

import re

_SIZES = {"": 1, "b": 1, "kb": 1 << 10, "kib": 1 << 10, "mb": 1 << 20, "mib": 1 << 20, "gb": 1 << 30, "gib": 1 << 30}
_DURATIONS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


class BadMark(Exception):
    """A mark that cannot be understood."""


class Limits:
    """The limits of one test. None where there is no such mark."""

    __slots__ = ("leaks", "memory", "pauses")

    def __init__(self, memory=None, leaks=None, pauses=None):
        self.memory, self.leaks, self.pauses = memory, leaks, pauses


class Leaks:
    """What `limit_leaks` says."""

    __slots__ = ("limit", "runs", "warmup")

    def __init__(self, limit, warmup, runs):
        self.limit, self.warmup, self.runs = limit, warmup, runs


_NONE = Limits()


def limits_of(item):
    """The limits of a test. The mark that is nearest to it counts."""
    memory, leaks, pauses = map(item.get_closest_marker, ("limit_memory", "limit_leaks", "limit_pauses"))
    if memory is leaks is pauses is None:
        return _NONE
    limits = Limits()
    if memory is not None:
        limits.memory = _size(memory, _arguments(memory, {"limit": None})["limit"])
    if pauses is not None:
        limits.pauses = _duration(pauses, _arguments(pauses, {"limit": None})["limit"])
    if leaks is not None:
        given = _arguments(leaks, {"limit": None, "warmup": 3, "runs": 20})
        for name, least in (("warmup", 0), ("runs", 4)):
            if isinstance(given[name], bool) or not isinstance(given[name], int) or given[name] < least:
                raise _bad(leaks, f"{name} must be a whole number of at least {least}")
        limits.leaks = Leaks(_size(leaks, given["limit"]), given["warmup"], given["runs"])
    return limits


def _arguments(mark, known):
    """The arguments of a mark by name; the limit is the first."""
    if len(mark.args) > 1:
        raise _bad(mark, "it takes one limit" + ("; write warmup= and runs=" if len(known) > 1 else ""))
    given = dict(known)
    if mark.args:
        given["limit"] = mark.args[0]
    for name, value in mark.kwargs.items():
        if name not in known or (name == "limit" and mark.args):
            raise _bad(mark, f"it knows {', '.join(known)}; {name} is none of them, or twice")
        given[name] = value
    if given["limit"] is None:
        raise _bad(mark, "it needs a limit")
    return given


def _size(mark, value):
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    number, unit = _parts(value)
    if unit not in _SIZES:
        raise _bad(mark, 'a size is a number and B, KB, MB or GB, such as "24 MB"')
    return int(number * _SIZES[unit])


def _duration(mark, value):
    number, unit = _parts(value)
    if unit not in _DURATIONS:
        raise _bad(mark, 'a duration is a number and us, ms or s, such as "5 ms"')
    return number * _DURATIONS[unit]


def _parts(value):
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zµA-Z]*)\s*", value) if isinstance(value, str) else None
    return (float(found[1]), found[2].lower()) if found else (0.0, None)


def _bad(mark, why):
    given = [repr(value) for value in mark.args] + [f"{name}={value!r}" for name, value in mark.kwargs.items()]
    return BadMark(f"{mark.name}({', '.join(given)}): {why}")


def size(number):
    """A size as it is written in a mark."""
    sign, number = "-" * (number < 0), abs(number)
    for unit in ("B", "KB", "MB"):
        if number < 1024:
            return f"{sign}{number:.0f} {unit}" if unit == "B" else f"{sign}{number:.1f} {unit}"
        number /= 1024
    return f"{sign}{number:.2f} GB"


def duration(seconds):
    """A duration as it is written in a mark."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"

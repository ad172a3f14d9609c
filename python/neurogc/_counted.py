"""Sections of a program in which every allocation is counted: the figures of one, and how they are shown."""

import json

from . import _native
from ._limits import size

# Stacks that are shown, and those that they are chosen from.
TOP = 5
_STACKS = 200


class Section:
    """All allocations between `begin` and `end`. There is one section at a time."""

    def begin(self):
        """Raises `RuntimeError` where allocations cannot be counted, with the reason."""
        _native.agent.count_begin()
        return self

    def end(self):
        _native.agent.count_end()
        self.figures = figures(_STACKS)
        self.peak = self.figures["peak"]

    __enter__ = begin

    def __exit__(self, *error):
        self.end()


def prepare():
    """Starts the agent where there is none: it only observes."""
    if not hasattr(_native.agent, "count_begin"):
        raise RuntimeError("allocations cannot be counted: the extension module of neurogc cannot be loaded here")
    if not _native.agent.installed():
        from . import install

        install(policy="observe", adapters=False)


def figures(stacks):
    """The figures of the last section, with so many stacks."""
    return json.loads(_native.agent.count_figures(stacks))


def is_native():
    """Whether allocations of native code are counted."""
    return figures(0)["native"]


def by_stack(sites, of_bytes, of_blocks):
    """Bytes and blocks by stack. Two instructions of one line are two sites."""
    stacks = {}
    for site in sites:
        key = tuple(map(tuple, site["stack"]))
        found, blocks = stacks.get(key, (0, 0))
        stacks[key] = (found + site[of_bytes], blocks + site[of_blocks])
    return stacks


def site_lines(stacks):
    """A line for each of the largest stacks, with the call that led there where another file did it."""
    lines = []
    least = sum(max(found, 0) for found, _ in stacks.values()) / 100
    for stack, (found, blocks) in sorted(stacks.items(), key=lambda entry: -entry[1][0])[:TOP]:
        if found <= least:
            break
        if not stack:
            lines.append(f"  {size(found):>9}  (no Python code)")
            continue
        file, line, function = stack[0]
        lines.append(f"  {size(found):>9}  {file}:{line} in {function} ({blocks:,} block{'s' * (blocks != 1)})")
        caller = next((frame for frame in stack[1:] if not _is_machinery(frame[0]) and frame[0] != file), None)
        if caller is not None:
            lines.append(f"             called from {caller[0]}:{caller[1]} in {caller[2]}")
    return lines


def _is_machinery(file):
    """Files of pytest, of IPython and of the import system: that they call is known."""
    return any(part in file for part in ("/_pytest/", "/pluggy/", "/IPython/")) or file.startswith("<frozen importlib")


def remarks(found):
    """What is not in the figures."""
    lines = []
    if not found["native"]:
        lines.append("allocations of native code are not in these figures")
    if found["lost"]:
        lines.append(f"{found['lost']:,} blocks are not in these figures: there was no memory to count them with")
    return lines

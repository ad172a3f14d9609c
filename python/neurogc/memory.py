"""Where the memory of this process is: questions that the program asks about itself."""

import json

from . import _counted, _native
from ._limits import size

__all__ = ["breakdown", "growth", "sites", "trim"]


def breakdown():
    """Where the resident memory is, read now. The GIL is released meanwhile, and no lock of `malloc` is taken.

    A dict of bytes. These add up to `rss`: `python_used`, `python_free` (arenas of CPython's allocator), `malloc_used`,
    `malloc_free`, `mapped`, `stacks`, `libraries` and `other`. Parts of these are `malloc_mapped`, `malloc_arenas_free`,
    `trimmable`, `python_sparse_free`, `mapped_files` and `ours`. `explained` is the share that is not `other`. `arenas` lists the
    arenas of `malloc`, `size_classes` small objects by the size of their blocks, and `largest` the largest blocks and
    mappings, with the line that allocated them where that is known.
    """
    report = json.loads(_native.agent.memory_json())
    return {**report.pop("breakdown"), **report}


def trim():
    """Gives memory back to the system that the program has freed and `malloc` keeps, whatever the setting `trim` says.

    A dict: `saved_bytes` is by how much the resident memory is smaller, `took_ms` how long it took, and `max_lock_ms` the
    longest time that one arena of `malloc` was locked: a thread that allocated from it had to wait that long.
    """
    saved, took, locked = _native.agent.memory_trim()
    return {"saved_bytes": saved, "took_ms": took, "max_lock_ms": locked}


class growth:
    """A context manager: by how much memory grows in its block, by line and by type, counted exactly.

    `live` is what was allocated in the block and lives at its end, `peak` the most at a time, both in bytes. `lines` is a
    list of (bytes, blocks, file, line, function), `types` one of (objects, bytes, type), the largest first; `types` is
    empty where objects cannot be counted. Its text is a report. The agent is started where there is none.
    """

    def __init__(self):
        self.live = self.peak = 0
        self.lines, self.types = [], []
        self._text = "the block has not ended"

    def __enter__(self):
        _counted.prepare()
        self._types = self._count()
        self._section = _counted.Section().begin()
        return self

    def __exit__(self, *error):
        _native.agent.count_end()
        after = self._count()
        self._section.end()
        figures = self._section.figures
        self.live, self.peak = figures["live"], figures["peak"]
        stacks = _counted.by_stack(figures["sites"], "live", "live_blocks")
        lines = {}
        for stack, (live, blocks) in stacks.items():
            place = stack[0] if stack else (None, None, None)
            before, blocks_before = lines.get(place, (0, 0))
            lines[place] = (before + live, blocks_before + blocks)
        self.lines = sorted(((*found, *place) for place, found in lines.items() if found[0] > 0), key=lambda line: -line[0])
        self.types = self._grown(json.loads(self._types), json.loads(after))
        rows = [f"{size(self.live)} more than before, peak {size(self.peak)}", *_counted.site_lines(stacks)]
        rows += [f"  {size(found):>9}  {count:,} {name}" for count, found, name in self.types[: _counted.TOP]]
        self._text = "\n".join(rows + _counted.remarks(figures))

    def __str__(self):
        return self._text

    @staticmethod
    def _count():
        # As one text: what is kept of the first count is in the second.
        try:
            return json.dumps(_native.agent.heap_count())
        except RuntimeError:
            return "[]"

    @staticmethod
    def _grown(before, after):
        if not before:
            return []
        types = {}
        for sign, found in ((-1, before), (1, after)):
            for name, objects, taken in found:
                count, bytes_ = types.get(name, (0, 0))
                types[name] = (count + sign * objects, bytes_ + sign * taken)
        grown = [(count, taken, name) for name, (count, taken) in types.items() if taken > 0]
        return sorted(grown, key=lambda found: -found[1])


def sites(since=None):
    """Live memory by call stack, the largest first. All figures are estimates from sampled allocations.

    A list of dicts: `site` is a text such as "app.py:12 in handler", `file`, `line` and `function` are its parts, or
    None where no Python code was running. `bytes` and `blocks` are live now; `made_bytes` and `made_blocks` count
    what was freed again, too. `domain` is the allocator: "object", "raw", "malloc" or "mmap". `stack` is a list of
    (file, line, function), the innermost call first.

    With `since`, a number of seconds, `growth_bytes` is by how much `bytes` is larger than it was that long ago, or at
    the nearest moment that is known.
    """
    seconds = None if since is None else max(0, min(int(since), 2**32 - 1))
    table = json.loads(_native.agent.sites_json(seconds))
    strings, frames, nodes = table["strings"], table["frames"], table["nodes"]
    found = []
    for site in table["sites"]:
        now = site["now"]
        if not now["live_bytes"] and not now["made_bytes"]:
            continue
        stack, node = [], site["node"]
        while node < len(nodes):
            frame = frames[nodes[node]["frame"]]
            stack.append((strings[frame["file"]], frame["line"], strings[frame["function"]]))
            node = nodes[node]["parent"]
        file, line, function = stack[0] if stack else (None, None, None)
        entry = {
            "site": f"{file}:{line} in {function}" if stack else "(no Python code)",
            "file": file,
            "line": line,
            "function": function,
            "bytes": now["live_bytes"],
            "blocks": now["live_blocks"],
            "made_bytes": now["made_bytes"],
            "made_blocks": now["made_blocks"],
            "domain": site["domain"],
            "stack": stack,
        }
        if seconds is not None:
            entry["growth_bytes"] = now["live_bytes"] - site["before"]["live_bytes"]
        found.append(entry)
    found.sort(key=lambda entry: entry["bytes"], reverse=True)
    return found

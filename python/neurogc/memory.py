"""Where the memory of this process is: questions that the program asks about itself."""

import json

from . import _native

__all__ = ["sites"]


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

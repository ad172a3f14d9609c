"""Whether a thread may collect at the end of a request: not in the middle of an event loop's turn."""

import sys

from ._native import agent


def may_act():
    """True where the calling thread runs no event loop. A loop that is not watched is asked to come by."""
    events = sys.modules.get("asyncio.events")
    loop = None if events is None else events._get_running_loop()
    if loop is None:
        return True
    adapter = sys.modules.get(__package__ + ".adapters.asyncio_loop")
    if adapter is None or not isinstance(getattr(loop, "_selector", None), adapter.WatchedSelector):
        # What has been written goes out first: the loop runs this in its next turn.
        loop.call_soon(agent.gap)
    return False

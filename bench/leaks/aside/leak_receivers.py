"""Signals with receivers: each request connects one more."""

import functools

from pace import rounds

KIND = "callbacks"
HOLDER = "__main__.receivers"

receivers = {"saved": [], "deleted": []}


def on_saved(body, sender):
    return sender, body


for number in rounds(160):
    receivers["saved"].append(functools.partial(on_saved, bytes(900)))  # the leak

"""A function with lru_cache(maxsize=None) and arguments that hardly repeat."""

import functools

from pace import rounds

KIND = "unbounded_cache"
HOLDER = "__main__.parse"


@functools.lru_cache(maxsize=None)
def parse(text):
    return {"text": text, "parts": text.split("-"), "pad": bytes(600)}  # the leak


for number in rounds(200):
    parse(f"query-{number}")

"""A cache with a bound fills up slowly, and then stays full."""

import functools

from pace import rounds

KIND = None


@functools.lru_cache(maxsize=20_000)
def parse(text):
    return {"text": text, "pad": bytes(600)}


for number in rounds(400):
    parse(f"query-{number}")

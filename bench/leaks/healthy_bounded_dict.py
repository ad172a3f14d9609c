"""An OrderedDict that drops its oldest entry."""

from collections import OrderedDict

from pace import rounds

KIND = None

cache = OrderedDict()
for number in rounds(300):
    cache[number] = bytes(2000)
    if len(cache) > 8000:
        cache.popitem(last=False)

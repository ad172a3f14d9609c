"""A cache of weak references: an entry goes with the last one that uses it."""

import weakref
from collections import deque

from pace import rounds

KIND = None


class Image:
    def __init__(self):
        self.pixels = bytes(5000)


cache = weakref.WeakValueDictionary()
in_use = deque(maxlen=2000)
for number in rounds(200):
    image = cache[number] = Image()
    in_use.append(image)

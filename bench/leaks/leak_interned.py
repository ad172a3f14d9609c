"""Every key is interned, and a table keeps it."""

import sys

from pace import rounds

KIND = ("unbounded_container", "modules")
HOLDER = "__main__.names"

names = {}
for number in rounds(300):
    key = sys.intern(f"name-{number}-" * 40)  # the leak
    names[key] = key  # the leak

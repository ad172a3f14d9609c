"""A deque without maxlen: the bound was forgotten."""

from collections import deque

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.recent"

recent = deque()
for number in rounds(200):
    recent.append(("GET", f"/item/{number}", bytes(800)))  # the leak

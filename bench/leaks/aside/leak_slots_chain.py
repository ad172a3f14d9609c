"""A history of versions: each has the one before it, and no object has a dict."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.newest"


class Version:
    __slots__ = ("earlier", "text")

    def __init__(self, earlier, text):
        self.earlier = earlier
        self.text = text


newest = None
for number in rounds(150):
    newest = Version(newest, bytes(1200))  # the leak

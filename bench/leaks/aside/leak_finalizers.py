"""A finalizer for each message, of an object that lives as long as the program."""

import weakref

from pace import rounds

KIND = ("callbacks", "unbounded_container")
HOLDER = "weakref.finalize._registry"


class Session:
    pass


session = Session()
for number in rounds(150):
    weakref.finalize(session, print, bytes(900))  # the leak

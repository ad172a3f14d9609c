"""Objects in cycles have a finalizer that puts them into a list for later."""

import gc

from pace import rounds

KIND = ("cyclic_garbage", "unbounded_container")
HOLDER = "__main__.graveyard"

graveyard = []


class Connection:
    def __init__(self):
        self.me = self
        self.buffer = bytes(900)  # the leak

    def __del__(self):
        graveyard.append(self)  # the leak


for number in rounds(200):
    Connection()
    if number % 200 == 0:
        gc.collect()

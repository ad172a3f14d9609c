"""A chain of objects, each of which holds the one before."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.Chain.last"


class Chain:
    last = None

    def __init__(self, number):
        self.before = Chain.last
        self.number = number
        self.body = bytes(900)  # the leak
        Chain.last = self  # the leak


for number in rounds(200):
    Chain(number)

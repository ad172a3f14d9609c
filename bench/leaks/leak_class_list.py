"""A list as an attribute of a class: all objects share it, and it stays when they go."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.Handler.results"


class Handler:
    results = []

    def handle(self, number):
        self.results.append((number, bytes(900)))  # the leak


for number in rounds(200):
    Handler().handle(number)

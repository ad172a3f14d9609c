"""Every request registers a bound method as a listener; none is removed."""

from pace import rounds

KIND = "callbacks"
HOLDER = "__main__.listeners"

listeners = []


class Request:
    def __init__(self, number):
        self.body = bytes(800)  # the leak
        self.number = number
        listeners.append(self.on_change)  # the leak

    def on_change(self):
        return self.number


for number in rounds(200):
    Request(number)

"""Generators that were begun are kept, each with its variables."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.streams"

streams = {}


def stream(number):
    buffer = bytearray(900)  # the leak
    while True:
        yield len(buffer) + number


for number in rounds(200):
    streams[number] = stream(number)  # the leak
    next(streams[number])

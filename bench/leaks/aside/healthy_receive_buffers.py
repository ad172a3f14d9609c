"""Connections whose buffers grow to the largest message that each has seen; messages have a largest size."""

import random
from array import array

from pace import rounds

KIND = None

choose = random.Random(7)
buffers = {f"connection-{number}": array("d") for number in range(60)}
names = list(buffers)
for number in rounds(25):
    buffer = buffers[choose.choice(names)]
    size = int(60_000 * choose.random() ** 3)
    if size > len(buffer):
        buffer.extend([0.0] * (size - len(buffer)))
    for place in range(0, size, 1000):
        buffer[place] = number

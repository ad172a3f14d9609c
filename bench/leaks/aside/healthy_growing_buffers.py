"""Forty buffers that grow to the size that messages have, and are used again."""

from pace import rounds

KIND = None

buffers = [bytearray() for _ in range(40)]
for number in rounds(200):
    buffer = buffers[number % len(buffers)]
    if len(buffer) < 400_000:
        buffer.extend(bytes(500))
    else:
        buffer[:1000] = bytes(1000)

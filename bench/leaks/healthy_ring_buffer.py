"""A list of fixed length whose places are written again, with texts of growing length up to a limit."""

from pace import rounds

KIND = None

ring = [None] * 5000
for number in rounds(400):
    ring[number % len(ring)] = bytes(min(200 + number // 20, 3000))

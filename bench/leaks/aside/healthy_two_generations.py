"""A cache of two generations: the young one becomes the old one when it is full."""

from pace import rounds

KIND = None

young, old = {}, {}
for number in rounds(250):
    young[number] = bytes(1500)
    if len(young) >= 9000:
        young, old = {}, young

"""A list that is written out and emptied when it is long."""

from pace import rounds

KIND = None

pending = []
for number in rounds(300):
    pending.append((number, bytes(2000)))
    if len(pending) >= 6000:
        pending.clear()

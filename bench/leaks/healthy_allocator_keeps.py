"""A large batch at the beginning: it was freed, and the allocator keeps most of the memory."""

from pace import rounds

KIND = None

rows = [{"number": number, "text": str(number)} for number in range(300_000)]
kept = rows[::500]
del rows
for number in rounds(200):
    [index * 1.5 for index in range(300)]

"""Tables are loaded in the first half minute, then nothing more."""

from pace import rounds

KIND = None

tables = {}
for number in rounds(200):
    if len(tables) < 6000:
        tables[number] = bytes(3000)

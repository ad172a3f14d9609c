"""A table is loaded for fifty seconds at an even pace, then requests are served from it."""

from pace import rounds

KIND = None

table = {}
for number in rounds(300):
    if number < 15_000:
        table[f"row-{number}"] = {"number": number, "text": bytes(700)}
    else:
        [table[f"row-{key}"] for key in range(number % 10_000, number % 10_000 + 20)]

"""Statistics per token in a dict of the module: a new key nearly every time."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.running_stats"

running_stats = {}
for number in rounds(300):
    token = f"token-{number}"
    running_stats[token] = [number, float(number), bytes(400)]  # the leak

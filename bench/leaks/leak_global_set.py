"""A set of the module remembers every id that was ever seen."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.seen"

seen = set()
for number in rounds(400):
    seen.add(f"request-{number}-" * 25)  # the leak

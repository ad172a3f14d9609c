"""A class is made for every message, and a registry keeps it."""

from pace import rounds

KIND = ("modules", "unbounded_container")
HOLDER = "__main__.registry"

registry = {}
for number in rounds(80):
    name = f"Message{number}"
    registry[name] = type(name, (), {"fields": ("a", "b"), "pad": bytes(500)})  # the leak

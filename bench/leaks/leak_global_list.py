"""A list of the module gets an event per request; none is removed."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.events"

events = []
for number in rounds(200):
    events.append({"number": number, "body": bytes(900)})  # the leak

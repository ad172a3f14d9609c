"""Cyclic garbage that the collector finds."""

from pace import rounds

KIND = None

for number in rounds(500):
    node = {"number": number, "pad": bytes(900)}
    node["self"] = node

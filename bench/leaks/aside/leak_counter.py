"""A Counter of a class that counts addresses, of which each comes once."""

from collections import Counter

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.Metrics.visits"


class Metrics:
    visits = Counter()

    @classmethod
    def count(cls, address):
        cls.visits[address] += 1  # the leak


for number in rounds(350):
    Metrics.count(f"10.0.{number}.1 " * 30)  # the leak

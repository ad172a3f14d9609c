"""A service that parses, checks, copies and answers."""

import json

import pyperf


class Order:
    def __init__(self, number, customer, lines):
        self.number, self.customer, self.lines = number, customer, lines

    def total(self):
        return sum(line["count"] * line["price"] for line in self.lines)


def order(number):
    lines = [{"name": f"thing {number}-{k}", "count": k + 1, "price": number * 0.25} for k in range(6)]
    return {"number": number, "customer": f"customer {number}", "lines": lines}


body = json.dumps({"orders": [order(number) for number in range(15)]})
recent = {}


def handle(path):
    orders = [Order(**order) for order in json.loads(body)["orders"]]
    answer = [{"number": o.number, "customer": o.customer.upper(), "total": f"{o.total():.2f}"} for o in orders]
    recent[path] = answer
    if len(recent) > 200:
        recent.clear()
    return json.dumps({"path": path, "orders": sorted(answer, key=lambda one: one["total"])}).encode()


def rounds(count):
    for turn in range(count):
        handle(f"/orders/{turn}?page={turn % 9}")


pyperf.Runner().bench_time_func("web", rounds)

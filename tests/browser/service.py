"""A small service that asks itself: live objects, cyclic garbage, requests, and now and then something that stalls it."""

import asyncio
import collections
import random
import sys
import time

LIVE = int(sys.argv[1]) if len(sys.argv) > 1 else 150_000

# The latest answers are kept for some seconds: what dies old is what full collections are for.
kept = collections.deque(maxlen=200)


class Node:
    """One of two that know each other: what only the cyclic collector can free."""

    def __init__(self, number):
        self.number = number
        self.other = None


def work(size):
    pairs = []
    for number in range(size):
        one, other = Node(number), Node(number)
        one.other, other.other = other, one
        pairs.append({"pair": (one, other), "scores": [number, number + 1]})
    return pairs


# How often each route is asked for, and how much it makes.
ROUTES = {"shop": (80, 250), "search": (15, 350), "checkout": (5, 900)}


def compute():
    """Some milliseconds of processor time, on a fast machine too: a light program is not looked at often enough for a model."""
    until = time.thread_time() + 0.004
    while time.thread_time() < until:
        pass


async def answer(mark):
    (route,) = random.choices(list(ROUTES), [often for often, _ in ROUTES.values()])
    with mark(route):
        kept.append(work(random.randrange(100, 2 * ROUTES[route][1])))
        await asyncio.sleep(0.002)
        work(100)
        compute()


def resize():
    """Holds the GIL for some tens of milliseconds."""
    return sum(range(2_500_000))


async def main():
    mark = sys.modules["neurogc"].request
    live = [{"key": number, "row": [number]} for number in range(LIVE)]
    begun = set()
    next_stall = time.monotonic() + 2
    while True:
        task = asyncio.create_task(answer(mark))
        begun.add(task)
        task.add_done_callback(begun.discard)
        live[random.randrange(LIVE)] = {"key": 0, "row": [0]}
        await asyncio.sleep(random.expovariate(60))
        if time.monotonic() > next_stall:
            next_stall += 2
            resize()


if __name__ == "__main__":
    asyncio.run(main())

"""One coroutine awaits another, over and over: an object is made for every few instructions."""

import pyperf


async def leaf(n):
    return n


async def twig(n):
    return await leaf(n) + await leaf(n + 1)


async def branch(n):
    return await twig(n) + await twig(n + 2)


def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value


def rounds(count):
    for _ in range(count):
        for n in range(400):
            drive(branch(n))


pyperf.Runner().bench_time_func("awaits", rounds)

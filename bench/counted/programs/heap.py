"""A heap of LIVE objects, and then the same work whatever LIVE is."""

import gc

import pyperf

LIVE = 100_000

kept = [{"id": n, "name": f"name {n}", "position": (n, n * 0.5)} for n in range(LIVE // 5)]
# No collection walks the heap: its length depends on LIVE, and has nothing to do with the sampler.
gc.freeze()


def round():
    return [{"key": n, "value": f"value {n}"} for n in range(1000)]


pyperf.Runner().bench_func("heap", round)

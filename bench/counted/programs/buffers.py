"""Buffers that native code takes from malloc."""

import zlib

import pyperf

data = bytes(range(256)) * 40


def round():
    parts = [bytearray(data[n : n + 3000]) for n in range(0, 6000, 100)]
    zlib.decompress(zlib.compress(data, 1))
    return parts


pyperf.Runner().bench_func("buffers", round)

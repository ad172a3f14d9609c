"""Small objects of many types, most of which live on for a while."""

import pyperf


class Point:
    __slots__ = ("x", "y", "label")

    def __init__(self, x, y):
        self.x, self.y, self.label = x, y, str(x)


kept = {}


def rounds(count):
    for turn in range(count):
        points = [Point(n * 1.5, n) for n in range(600)]
        kept[turn % 5] = {point.label: (point.x, [point.y]) for point in points}


pyperf.Runner().bench_time_func("objects", rounds)

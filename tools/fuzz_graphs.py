"""Random graphs of objects, collected by snapshots and judged by a model that knows what is reachable.

    fuzz_graphs.py [--graphs N] [--seed S] [--seconds S]

Must run under the agent. Many small graphs share a snapshot. Between the clone and the freeing, weak references bring
some of the garbage back to life and some of the living dies. Afterwards everything that the program can reach must be
there and unharmed, everything that was garbage and did not come back must be gone, and a full collection must find
nothing that the snapshot should have found.
"""

import argparse
import gc
import random
import sys
import time
import weakref

import neurogc

AGENT = neurogc._native.agent
GRAPHS_AT_ONCE = 60


class Plain:
    pass


class Slots:
    __slots__ = ("label", "links", "__weakref__")


class Closing:
    def __del__(self):
        self.closed = True


class Listed(list):
    pass


def link_by_list(node, targets):
    node.links = list(targets)


def link_by_tuple(node, targets):
    node.links = tuple(targets)


def link_by_dict(node, targets):
    node.links = dict(enumerate(targets))


def link_by_closure(node, targets):
    node.links = (lambda held: lambda: held)(targets)


def link_by_generator(node, targets):
    def hold(held):
        yield held

    node.links = hold(targets)
    next(node.links)


def link_by_method(node, targets):
    holder = Plain()
    holder.held = targets
    node.links = holder.__getattribute__


KINDS = [Plain, Slots, Closing, Listed]
LINKS = [link_by_list, link_by_tuple, link_by_dict, link_by_closure, link_by_generator, link_by_method]


class Graph:
    """A graph, what holds it from outside, and the model of both."""

    def __init__(self, rng, number):
        size = rng.choice((1, 2, 3, 5, 8, 20, 40))
        self.edges = [
            [rng.randrange(size) for _ in range(rng.choice((0, 1, 1, 2, 3)))] for _ in range(size)
        ]
        nodes = [rng.choice(KINDS)() for _ in range(size)]
        for index, (node, edges) in enumerate(zip(nodes, self.edges)):
            node.label = (number, index)
            rng.choice(LINKS)(node, [nodes[target] for target in edges])
        self.number = number
        self.weak = [weakref.ref(node) for node in nodes]
        self.held = {index: nodes[index] for index in range(size) if rng.random() < rng.choice((0.0, 0.1, 0.5))}

    def reachable(self):
        """The numbers of what can be reached from what is held."""
        seen, open_ = set(self.held), list(self.held)
        while open_:
            for target in self.edges[open_.pop()]:
                if target not in seen:
                    seen.add(target)
                    open_.append(target)
        return seen

    def bring_back(self, index):
        """Holds a node that only a weak reference leads to; false where it is gone."""
        node = self.weak[index]()
        if node is not None:
            self.held[index] = node
        return node is not None

    def check(self, expected_dead):
        """Everything reachable is there, with its label; everything that must be gone is."""
        reachable = self.reachable()
        for index, ref in enumerate(self.weak):
            node = ref()
            if index in reachable:
                assert node is not None, f"graph {self.number}: node {index} is lost"
                assert node.label == (self.number, index), f"graph {self.number}: node {index} is another"
            elif index in expected_dead:
                assert node is None, f"graph {self.number}: node {index} is not freed"


def flight(rng, first):
    """One snapshot over many graphs. Gives how many objects it freed."""
    graphs = [Graph(rng, first + number) for number in range(GRAPHS_AT_ONCE)]
    dead = [set(range(len(graph.weak))) - graph.reachable() for graph in graphs]
    if rng.random() < 0.3:
        gc.collect(rng.choice((0, 1)))
    AGENT.snapshot_launch()
    for graph, garbage in zip(graphs, dead):
        for index in list(garbage):
            if rng.random() < 0.1 and graph.bring_back(index):
                garbage -= graph.reachable()
        for index in list(graph.held):
            if index not in garbage and rng.random() < 0.1:
                # It becomes garbage after the snapshot, which may or may not find that.
                del graph.held[index]
    freed = 0
    while True:
        word, more = AGENT.snapshot_look()
        if word == "ready":
            freed += AGENT.snapshot_reap(rng.choice((0.05, 0.5, 5.0)), rng.random() < 0.5)[0]
        elif word in ("idle", "failed"):
            assert word == "idle", more
            break
        else:
            time.sleep(0.0002)
    for graph, garbage in zip(graphs, dead):
        graph.check(garbage - graph.reachable())
    if rng.random() < 0.2:
        gc.collect()
        for graph in graphs:
            graph.check(set(range(len(graph.weak))) - graph.reachable())
    return freed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0, help="at least so long, whatever --graphs says")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    gc.collect()
    gc.disable()
    began, done, freed = time.monotonic(), 0, 0
    while done < options.graphs or time.monotonic() - began < options.seconds:
        freed += flight(rng, done)
        done += GRAPHS_AT_ONCE
    failed = AGENT.snapshot_figures()["failed"]
    assert not failed, failed
    seconds = time.monotonic() - began
    print(f"fuzz: {sys.version.split()[0]}: {done} graphs, {freed} objects freed, seed {options.seed}, {seconds:.0f} s")


if __name__ == "__main__":
    main()

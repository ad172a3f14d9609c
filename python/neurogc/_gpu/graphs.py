"""Graphs of autograd: the memory that they keep for the backward pass.

A tensor that was saved is read from the node as it is. Hooks of the program that would bring it back from elsewhere, or compute
it again, are not called.
"""

from time import perf_counter

from . import allocator
from .blocks import ACTIVATIONS

# What hooks of the program have put in the place of a tensor is looked into this deep.
_DEPTH = 3


class Graphs:
    """All nodes that were visited, so that each counts once."""

    def __init__(self, blocks, tensor_class, until):
        self._blocks, self._tensor_class, self._until = blocks, tensor_class, until
        self._seen = {}
        self._saved = {}
        # Of what was claimed: bytes of 32-bit numbers, of which half would do.
        self.wide = 0
        self.complete = True

    def walk(self, node):
        """Claims what the graph below a node has saved; (bytes, nodes) that were not seen before."""
        found, nodes, waiting = 0, 0, [node]
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in self._seen:
                continue
            if nodes % 256 == 255 and perf_counter() > self._until:
                self.complete = False
                break
            # Python's objects of nodes come and go: kept, they have their number for themselves.
            self._seen[id(node)] = node
            nodes += 1
            found += self._claim(node)
            waiting.extend(below for below, _ in node.next_functions)
        return found, nodes

    def _claim(self, node):
        found = 0
        for name in self._names(type(node)):
            try:
                saved = getattr(node, name)
            except Exception:
                # The backward pass has freed it.
                continue
            for one in saved if isinstance(saved, tuple) else (saved,):
                found += self._content(getattr(one, "data", None), _DEPTH)
        return found

    def _names(self, kind):
        names = self._saved.get(kind)
        if names is None:
            names = self._saved[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        return names

    def _content(self, content, depth):
        if issubclass(type(content), self._tensor_class):
            if not allocator.is_ours(content):
                return 0
            size = self._blocks.claim(allocator.address(content), ACTIVATIONS)
            self.wide += size if allocator.is_wide(content) else 0
            return size
        if depth and type(content) in (tuple, list):
            return sum(self._content(one, depth - 1) for one in content)
        return 0

"""Graphs of autograd: the memory that they keep for the backward pass.

A tensor that was saved is read from the node as it is. Hooks of the program that would bring it back from elsewhere, or compute
it again, are not called. Older versions of PyTorch cannot tell a tensor as it is: there, nodes are asked for the tensor itself, as
long as the program has set no such hooks.
"""

from . import allocator
from .blocks import ACTIVATIONS

# What hooks of the program have put in the place of a tensor is looked into this deep.
_DEPTH = 3


class Graphs:
    """All nodes that were visited, so that each counts once."""

    def __init__(self, blocks, tensor_class, deadline):
        self._blocks, self._tensor_class, self._deadline = blocks, tensor_class, deadline
        self._tells, self._unpacks = allocator.saved_as_they_are(), allocator.saved_are_plain()
        self._seen = {}
        self._saved = {}
        # Of what was claimed: bytes of 32-bit numbers, of which half would do.
        self.wide = 0

    def walk(self, node):
        """Claims what the graph below a node has saved; (bytes, nodes) that were not seen before."""
        found, nodes, waiting = 0, 0, [node]
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in self._seen:
                continue
            if nodes % 256 == 255 and self._deadline.is_over():
                break
            # Python's objects of nodes come and go: kept, they have their number for themselves.
            self._seen[id(node)] = node
            nodes += 1
            found += self._claim(node)
            waiting.extend(below for below, _ in node.next_functions)
        return found, nodes

    def _claim(self, node):
        if not (self._tells or self._unpacks):
            return 0
        found = 0
        for name in self._names(type(node)):
            try:
                saved = getattr(node, name)
            except Exception:
                # The backward pass has freed it.
                continue
            for one in saved if isinstance(saved, tuple) else (saved,):
                found += self._content(getattr(one, "data", None) if self._tells else one, _DEPTH)
        return found

    def _names(self, kind):
        """The attributes of nodes of a class that give what they have saved: as it is, or the tensors themselves."""
        names = self._saved.get(kind)
        if names is None:
            names = [name for name in dir(kind) if name.startswith("_raw_saved_")]
            if not self._tells:
                # Nodes of C++ have both by the same name, those of functions in Python have one name.
                names = ["saved_tensors" if name == "_raw_saved_tensors" else name.replace("_raw", "", 1) for name in names]
            self._saved[kind] = names
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

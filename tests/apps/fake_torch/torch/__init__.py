"""As much of PyTorch as the agent asks for, without a GPU: tensors with blocks of a made-up allocator, graphs, modules.

A block is taken from segments of 2 MB, or from one of its own, and freed with its tensor. `torch.card` is the card.
"""

import os
import sys
import types

from . import _C  # noqa: F401

float32, int64 = object(), object()
card = _C.card


class OutOfMemoryError(RuntimeError):
    """What the program gets."""


class _Block:
    """The memory of a tensor, which views share."""

    address = None

    def __init__(self, size):
        self.address = card.take(size)

    def __del__(self):
        if self.address is not None:
            card.free(self.address)


class Tensor:
    """A tensor of so many bytes."""

    def __init__(self, size=512, grad_fn=None, dtype=float32):
        self.dtype, self.grad, self.grad_fn, self._block = dtype, None, grad_fn, None
        self.device = types.SimpleNamespace(type="cuda", index=0)
        self._block = _Block(size) if size else None

    @property
    def is_leaf(self):
        return self.grad_fn is None

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self._block.address if self._block else 0)

    def view(self):
        """Another tensor with the same memory."""
        other = Tensor(0)
        other._block = self._block
        return other


class Saved:
    """What a node holds, as it is: the tensor, or what a hook of the program has put in its place."""

    def __init__(self, content):
        self._content = content

    @property
    def data(self):
        return self._content

    def register_hooks(self, pack, unpack):
        self._content = ("packed", pack(self._content))


class Node:
    """An operation of a graph. The tensor that it has saved is none that Python code has."""

    def __init__(self, size, *below):
        self._raw_saved_self = Saved(Tensor(size))
        self._raw_saved_others = (Saved(None), Saved(("packed", Tensor(size))))
        self.next_functions = tuple((node, 0) for node in below)

    @property
    def _saved_self(self):
        if type(self._raw_saved_self._content) is tuple:
            raise SystemExit("a hook of the program was called")
        return self._raw_saved_self._content

    @property
    def _saved_others(self):
        return tuple(each._content for each in self._raw_saved_others)

    @property
    def _raw_saved_freed(self):
        raise RuntimeError("freed")


# The classes of nodes come from C++: `dir` of the class knows what they have saved.
Node._raw_saved_self = Node._raw_saved_others = None

_C._autograd = types.SimpleNamespace(SavedTensor=Saved, _push_saved_tensors_default_hooks=lambda pack, unpack: None)
if os.environ.get("FAKE_TORCH") == "old":
    # As up to 2.6: what is saved cannot be read as it is.
    del Saved.data

from . import cuda, nn, optim  # noqa: E402, F401


class Dataset:
    """What datasets of programs derive from."""


for _name in ("torch.utils", "torch.utils.data"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["torch.utils.data"].Dataset = Dataset

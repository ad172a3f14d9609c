"""What graphs keep is read by real nodes of PyTorch, on the CPU. Needs torch; it runs with any version from 2.1 on.

    saved_tensors.py      under `neurogc run`

Nodes of C++ and of functions in Python are asked, and hooks of the program are never called.
"""

import json

import torch
from neurogc._gpu import allocator
from neurogc._gpu.deadline import Deadline
from neurogc._gpu.graphs import Graphs

# As if these were tensors of a GPU.
allocator.KIND = "cpu"
INPUTS, WIDTH = 32, 64


class Claims:
    """Takes every block for one of the allocator's, once."""

    def __init__(self):
        self.sizes = {}

    def claim(self, address, use):
        if not address or address in self.sizes:
            return 0
        self.sizes[address] = True
        return 1


class Doubled(torch.autograd.Function):
    """A function of the program, which saves a tensor that nothing else holds."""

    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs.exp())
        return inputs * 2

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def claimed(loss):
    """How many blocks the graph of a tensor has saved."""
    graphs = Graphs(Claims(), torch.Tensor, Deadline(60))
    with allocator.plainly():
        return graphs.walk(loss.grad_fn)[0]


def failing(*_):
    raise SystemExit("a hook of the program was called")


def loss():
    """Saved, five tensors: the inputs, the result of tanh and of exp, the random factor and the product that is squared."""
    hidden = torch.tanh(torch.randn(INPUTS, WIDTH) @ weight)
    return (Doubled.apply(hidden) * torch.randn(INPUTS, WIDTH)).square().sum()


weight = torch.randn(WIDTH, WIDTH, requires_grad=True)
found = {"version": torch.__version__, "tells": allocator.saved_as_they_are(), "plain": claimed(loss())}
freed = loss()
freed.backward()
found["freed"] = claimed(freed)
changed = torch.randn(INPUTS, WIDTH) @ weight
kept = changed.exp()
root = kept.sum()
kept.add_(1)
found["changed"] = claimed(root)
with torch.autograd.graph.saved_tensors_hooks(lambda tensor: ("away", tensor.shape), failing):
    found["hooked"] = claimed(loss())
found["after"] = claimed(loss())
print(json.dumps(found))

"""An optimizer that keeps two tensors for each parameter."""

from .. import Tensor

_hooks = []


def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)


class Optimizer:
    """As PyTorch keeps its state."""

    def __init__(self, parameters, size):
        self.param_groups = [{"params": list(parameters)}]
        self.state, self._size = {}, size

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            if parameter not in self.state:
                self.state[parameter] = {"step": 1, "mean": Tensor(self._size), "square": [Tensor(self._size)]}
        for hook in _hooks:
            hook(self, (), {})

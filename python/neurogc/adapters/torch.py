"""PyTorch: the end of an optimizer's step is a place where a training loop can be collected, the workers of a DataLoader
share what they inherit, and the memory of GPUs is watched once the program uses one.
"""

from .. import _gpu
from .._native import agent


def adapt(module, replace):
    if module.__name__ == "torch.utils.data.dataloader":
        replace(module._MultiProcessingDataLoaderIter, "__init__", _sharing)
        replace(module._BaseDataLoaderIter, "__next__", _counting)
        return
    if module.__name__ == "torch.cuda":
        # It is called when the program begins to use a GPU, or now if it does already.
        module._lazy_call(_gpu.start)
        return
    # The hooks are for every optimizer there is, so Lightning and the Trainer of Hugging Face need nothing more.
    # There is no function to replace: taking the hook out again is not needed, because without an agent it is idle.
    module.register_optimizer_step_post_hook(_step_ends)


def _step_ends(optimizer, args, kwargs):
    _gpu.step_ended()
    if agent.progress():
        agent.gap()


def _counting(deliver):
    def __next__(self):
        data = deliver(self)
        agent.batch()
        return data

    return __next__


def _sharing(initialise):
    # The workers are started in here; those that are spawned, not forked, inherit nothing and are left alone.
    def __init__(self, *args, **kwargs):
        agent.forks_workers(True, "dataloader")
        try:
            initialise(self, *args, **kwargs)
        finally:
            agent.forks_workers(False)

    return __init__

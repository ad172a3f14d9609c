"""PyTorch: the end of an optimizer's step is a place where a training loop can be collected, and where the ranks of a job
collect together. A loader that has delivered everything ends an epoch or an evaluation. The workers of a DataLoader share
what they inherit, and the memory of GPUs is watched once the program uses one.
"""

import sys
import weakref

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
    if module.__name__ == "torch.distributed.distributed_c10d":
        replace(module, "destroy_process_group", _parting)
        package = sys.modules.get("torch.distributed")
        if hasattr(package, "destroy_process_group"):
            replace(package, "destroy_process_group", _parting)
        return
    # The hooks are for every optimizer there is, so Lightning and the Trainer of Hugging Face need nothing more.
    # There is no function to replace: taking the hook out again is not needed, because without an agent it is idle.
    module.register_optimizer_step_post_hook(_step_ends)
    # By now autograd is there, which `torch.cuda` does not wait for.
    _gpu.loaded()


def _step_ends(optimizer, args, kwargs):
    _gpu.step_ended()
    ranks = _ranks()
    if ranks > 1:
        if _counter.counts(optimizer):
            agent.rank_step(ranks)
    elif agent.progress():
        agent.gap()


class _Counter:
    """Counts the steps of one optimizer: ranks may have several, and not all of them as many.

    Where that one is gone, or others have stepped often without it, the next one that steps is counted. All of that
    depends on the steps alone, so it is the same on all ranks that train alike.
    """

    OTHERS = 64

    def __init__(self):
        self._leader = None
        self._others = 0

    def counts(self, optimizer):
        leader = self._leader() if self._leader is not None else None
        if leader is not optimizer:
            self._others += 1
            if leader is not None and self._others <= self.OTHERS:
                return False
            self._leader = weakref.ref(optimizer)
        self._others = 0
        return True


_counter = _Counter()
# The process group that was asked how many ranks it has, and its answer. It is known by its address: what we would hold,
# the program could not take down.
_group = None
_size = 0


def _ranks():
    """How many ranks train together. It is asked after each step, so the group is compared and not asked again."""
    global _group, _size
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None:
        return 0
    group = distributed.GroupMember.WORLD
    if group is None:
        return 0
    if id(group) != _group:
        _group, _size = id(group), distributed.get_world_size()
    return _size


def _parting(destroy):
    def destroy_process_group(*args, **kwargs):
        destroy(*args, **kwargs)
        distributed = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or distributed.GroupMember.WORLD is None:
            _forget_ranks()

    return destroy_process_group


def _forget_ranks():
    global _counter, _group, _size
    _counter, _group, _size = _Counter(), None, 0
    agent.ranks_parted()


def _counting(deliver):
    def __next__(self):
        try:
            data = deliver(self)
        except StopIteration:
            agent.boundary()
            raise
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

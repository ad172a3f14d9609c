"""PyTorch: the end of an optimizer's step is a place where a training loop can be collected."""

from .._native import agent


def adapt(module, replace):
    # The hooks are for every optimizer there is, so Lightning and the Trainer of Hugging Face need nothing more.
    # There is no function to replace: taking the hook out again is not needed, because without an agent it is idle.
    module.register_optimizer_step_post_hook(_step_ends)


def _step_ends(optimizer, args, kwargs):
    if agent.progress():
        agent.collect_posted()

"""Lightning: it knows how long its loaders are and does not ask for more, so it tells of the ends of epochs itself."""

from .._native import agent

_ENDS = ("on_train_epoch_end", "on_validation_end", "on_test_end")


def adapt(module, replace):
    replace(module, "_call_callback_hooks", _telling)


def _telling(call):
    def _call_callback_hooks(trainer, hook_name, *args, monitoring_callbacks=None, **kwargs):
        if monitoring_callbacks is not None:
            kwargs["monitoring_callbacks"] = monitoring_callbacks
        answer = call(trainer, hook_name, *args, **kwargs)
        # Some are called twice: for most callbacks, and then for those that monitor.
        if hook_name in _ENDS and not monitoring_callbacks:
            agent.boundary()
        return answer

    return _call_callback_hooks

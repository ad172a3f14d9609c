"""SGLang: a batch that the scheduler runs is one request. Before the scheduler waits for the GPU, and where it is idle, there
is a gap.
"""

from .._native import Mark, agent

# The mark of the step that a scheduler is in.
_STEP = "_neurogc_step"


def adapt(module, replace):
    replace(module.Scheduler, "run_batch", _beginning)
    replace(module.Scheduler, "process_batch_result", _ending)
    replace(module.Scheduler, "on_idle", _idling)


def _beginning(run_batch):
    def begin_and_run(self, *args, **kwargs):
        # Where the scheduler works ahead, the first batch has no result to process before the second one begins.
        _end(self)
        setattr(self, _STEP, Mark("engine step"))
        return run_batch(self, *args, **kwargs)

    return begin_and_run


def _ending(process_batch_result):
    def process_and_end(self, *args, **kwargs):
        # The batch was launched; its result, or that of the one before, is waited for in here.
        if agent.progress():
            agent.gap()
        try:
            return process_batch_result(self, *args, **kwargs)
        finally:
            _end(self)

    return process_and_end


def _idling(on_idle):
    def idle_and_use_it(self, *args, **kwargs):
        _end(self)
        if agent.progress():
            agent.gap()
        return on_idle(self, *args, **kwargs)

    return idle_and_use_it


def _end(scheduler):
    mark = vars(scheduler).pop(_STEP, None)
    if mark is not None:
        mark.end()

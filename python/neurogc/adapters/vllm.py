"""vLLM: a step of the engine is one request, and a step of a worker in a process of its own. While the GPU computes what was
launched, the thread of the engine has a gap.
"""

from threading import local

from .._native import Mark, agent

# Where the worker is in the engine's process, its step is a part of the engine's.
_inside = local()

_EXECUTORS = ("Executor", "UniProcExecutor", "MultiprocExecutor")


def adapt(module, replace):
    if module.__name__ == "vllm.v1.engine.core":
        replace(module.EngineCore, "step", _counting("engine step"))
        replace(module.EngineCore, "step_with_batch_queue", _counting("engine step"))
    elif module.__name__ == "vllm.v1.worker.worker_base":
        replace(module.WorkerWrapperBase, "execute_model", _counting("worker step"))
    else:
        for name in _EXECUTORS:
            kind = vars(module).get(name)
            if kind is not None and kind.__module__ == module.__name__:
                replace(kind, "execute_model", _waiting)


def _counting(name):
    def make(step):
        def step_and_count(self, *args, **kwargs):
            if getattr(_inside, "step", False):
                return step(self, *args, **kwargs)
            _inside.step = True
            mark = Mark(name)
            try:
                return step(self, *args, **kwargs)
            finally:
                _inside.step = False
                mark.end()

        return step_and_count

    return make


def _waiting(execute_model):
    def execute_and_use_the_wait(self, scheduler_output, non_block=False, *args, **kwargs):
        output = execute_model(self, scheduler_output, non_block, *args, **kwargs)
        # The engine asks for the result next, and waits for the GPU there.
        if non_block and agent.progress():
            agent.gap()
        return output

    return execute_and_use_the_wait

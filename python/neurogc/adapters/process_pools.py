"""Pools of `multiprocessing` and `concurrent.futures`: their workers share what they inherit."""

from .._native import agent

# The functions that workers of pools run.
_WORKERS = {("multiprocessing.pool", "worker"), ("concurrent.futures.process", "_process_worker")}


def adapt(module, replace):
    replace(module.Popen, "_launch", _sharing)


def _sharing(launch):
    def launch_sharing(self, process_obj):
        target = getattr(process_obj, "_target", None)
        if (getattr(target, "__module__", None), getattr(target, "__name__", None)) not in _WORKERS:
            return launch(self, process_obj)
        agent.forks_workers(True, "pool")
        try:
            return launch(self, process_obj)
        finally:
            agent.forks_workers(False)

    return launch_sharing

"""Workers that take jobs from a queue (Celery, RQ, Dramatiq): one job is one request, named for its function."""

from .._native import Mark
from .._shortage import noticed

# Tasks of Celery that run in this process now. Its signals come in pairs.
_running = {}


def adapt(module, replace):
    if module.__name__ == "celery.signals":
        # There is no function to replace: taking the handlers out again is not needed, because without an agent they are
        # idle.
        module.task_prerun.connect(_task_begins, weak=False)
        module.task_postrun.connect(_task_ends, weak=False)
        module.task_failure.connect(_task_fails, weak=False)
    elif module.__name__ == "rq.job":
        replace(module.Job, "perform", _counting_job)
    else:
        replace(module._WorkerThread, "process_message", _counting_message)


def _task_begins(task_id=None, task=None, **_):
    _running[task_id] = Mark(getattr(task, "name", None))


def _task_ends(task_id=None, **_):
    mark = _running.pop(task_id, None)
    if mark is not None:
        mark.end()


def _task_fails(exception=None, **_):
    if isinstance(exception, MemoryError):
        noticed()


def _counting_job(perform):
    def perform_and_count(self):
        mark = Mark(self.func_name)
        try:
            return perform(self)
        except MemoryError:
            noticed()
            raise
        finally:
            mark.end()

    return perform_and_count


def _counting_message(process_message):
    def process_and_count(self, message):
        mark = Mark(message.actor_name)
        try:
            return process_message(self, message)
        finally:
            mark.end()

    return process_and_count

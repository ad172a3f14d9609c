"""Kernels of Jupyter: the execution of a cell is one request."""

from .._native import Mark


def adapt(module, replace):
    replace(module.IPythonKernel, "do_execute", _counting)


def _counting(do_execute):
    async def execute_and_count(self, *args, **kwargs):
        mark = Mark("cell")
        try:
            return await do_execute(self, *args, **kwargs)
        finally:
            mark.end()

    return execute_and_count

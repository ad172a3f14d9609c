"""aiohttp: a request of its server lasts from its handler's start to its end."""

from .._native import Mark
from .._shortage import noticed
from ..wsgi import ROUTE


def adapt(module, replace):
    replace(module.Application, "_handle", _counting)


def _counting(handle):
    async def handle_and_count(self, request):
        mark = Mark()
        try:
            return await handle(self, request)
        except MemoryError:
            noticed()
            raise
        finally:
            # Known by now, unless nothing matched.
            resource = getattr(getattr(request.match_info, "route", None), "resource", None)
            mark.answered({ROUTE: getattr(resource, "canonical", None), "PATH_INFO": request.path})
            mark.end()

    return handle_and_count

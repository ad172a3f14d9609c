"""Ray: a task, a call of an actor's method, or a request that a replica of Ray Serve answers is one request.

What Ray itself calls (its own actors, `__init__`, `__ray_…`) is not counted.
"""

from .. import _marks
from .._native import Mark
from ..asgi import COUNTED


def adapt(module, replace):
    if module.__name__ == "ray.serve._private.replica":
        replace(module.UserCallableWrapper, "call_user_method", _counting_method)
        replace(module.UserCallableWrapper, "call_user_generator", _counting_generator)
        replace(module.UserCallableWrapper, "call_http_entrypoint", _counting_http)
    else:
        replace(module.FunctionActorManager, "get_execution_info", _marking_tasks)
        replace(module.FunctionActorManager, "_make_actor_method_executor", _marking_methods)


def _marking_tasks(get_execution_info):
    def get_marked(self, job_id, function_descriptor):
        info = get_execution_info(self, job_id, function_descriptor)
        function = info.function
        # Methods of actors were marked when their class was loaded; they have what Ray wants to know of them.
        if hasattr(function, "method") or hasattr(function, "__neurogc__") or _is_of_ray(function):
            return info
        marked = _marks.request(_name(function))(function)
        marked.__neurogc__ = True
        info = info._replace(function=marked)
        self._function_execution_info[function_descriptor.function_id] = info
        return info

    return get_marked


def _marking_methods(make_executor):
    def make_marked(self, method_name, method):
        # A method that is bound already is a class method, which Ray tells by its `__self__`.
        if not method_name.startswith("__ray") and method_name != "__init__" and not hasattr(method, "__self__"):
            if not _is_of_ray(method):
                method = _marks.request(_name(method))(method)
        return make_executor(self, method_name, method)

    return make_marked


def _is_of_ray(function):
    return (getattr(function, "__module__", None) or "").startswith("ray.")


def _name(function):
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", None)


def _counting_method(call):
    def call_and_count(self, request_metadata, *args, **kwargs):
        mark = Mark(_method(self, request_metadata))
        try:
            answer = call(self, request_metadata, *args, **kwargs)
        except BaseException:
            mark.end()
            raise
        if hasattr(answer, "add_done_callback"):
            # The method runs in the event loop of another thread.
            answer.add_done_callback(lambda _: mark.end())
            return answer
        return _awaited(answer, mark)

    return call_and_count


async def _awaited(answer, mark):
    try:
        return await answer
    finally:
        mark.end()


def _counting_generator(call):
    async def call_and_count(self, request_metadata, *args, **kwargs):
        mark = Mark(_method(self, request_metadata))
        values = call(self, request_metadata, *args, **kwargs)
        try:
            async for value in values:
                yield value
        finally:
            mark.end()
            await values.aclose()

    return call_and_count


def _counting_http(call):
    async def call_and_count(self, request_metadata, status_code_callback, scope, *args, **kwargs):
        counts = isinstance(scope, dict) and scope.get("type") == "http"
        if counts and getattr(request_metadata, "is_direct_ingress", False):
            counts = COUNTED not in scope
        # Otherwise the scope comes from the proxy, which has counted the request in its own process.
        if counts:
            # The application below may be of FastAPI, which would count it, too.
            scope[COUNTED] = True
        mark = Mark.asgi(scope) if counts else None
        values = call(self, request_metadata, status_code_callback, scope, *args, **kwargs)
        try:
            async for value in values:
                yield value
        finally:
            if counts:
                mark.end()
            await values.aclose()

    return call_and_count


def _method(wrapper, request_metadata):
    deployment = getattr(getattr(wrapper, "_deployment_id", None), "name", None)
    method = getattr(request_metadata, "call_method", None)
    return f"{deployment}.{method}" if deployment else method

"""gRPC: a call lasts as long as the method that answers it, in a server with threads and in one with asyncio."""

from .. import _marks
from .._native import Mark

# How many methods of an asyncio server keep their marked form. A generic handler may answer to any name.
_KEPT = 256


def adapt(module, replace):
    if module.__name__ == "grpc._server":
        replace(module, "_call_behavior", _counting)
    else:
        replace(module.Server, "__init__", _intercepting(module))


def _counting(call_behavior):
    def call_and_count(rpc_event, *args, **kwargs):
        mark = Mark(_text(getattr(getattr(rpc_event, "call_details", None), "method", None)))
        try:
            return call_behavior(rpc_event, *args, **kwargs)
        finally:
            mark.end()

    return call_and_count


def _intercepting(module):
    # The calls run in compiled code, which asks interceptors for the function of each.
    class Counting(module.ServerInterceptor):
        """Gives each method in a form that is marked."""

        def __init__(self):
            self._marked = {}

        async def intercept_service(self, continuation, handler_call_details):
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            method = _text(handler_call_details.method)
            known = self._marked.get(method)
            if known is not None and known[0] is handler:
                return known[1]
            marked = _marked(handler, method)
            if len(self._marked) < _KEPT or known is not None:
                self._marked[method] = (handler, marked)
            return marked

    def make(initialise):
        def __init__(self, thread_pool, generic_handlers, interceptors, *args, **kwargs):
            # The first one sees what the others have made of the method.
            initialise(self, thread_pool, generic_handlers, (Counting(), *(interceptors or ())), *args, **kwargs)

        return __init__

    return make


def _marked(handler, method):
    from grpc._utilities import RpcMethodHandler

    forms = {name: getattr(handler, name) for name in RpcMethodHandler._fields}
    for name in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        if forms[name] is not None:
            forms[name] = _marks.request(method)(forms[name])
    return RpcMethodHandler(**forms)


def _text(method):
    return method.decode("utf-8", "replace") if isinstance(method, bytes) else method

"""gRPC: a call that a server with threads answers lasts as long as the method that answers it.

Calls of `grpc.aio` are not counted: they run in compiled code.
"""

from .._native import Mark


def adapt(module, replace):
    replace(module, "_call_behavior", _counting)


def _counting(call_behavior):
    def call_and_count(rpc_event, *args, **kwargs):
        mark = Mark(_method(rpc_event))
        try:
            return call_behavior(rpc_event, *args, **kwargs)
        finally:
            mark.end()

    return call_and_count


def _method(rpc_event):
    method = getattr(getattr(rpc_event, "call_details", None), "method", None)
    return method.decode("utf-8", "replace") if isinstance(method, bytes) else method

"""Flask: the application class, for servers that have no adapter, and the rule that it found for a request."""

from .._shortage import noticing
from ..wsgi import ROUTE, counting


def adapt(module, replace):
    replace(module.Flask, "__call__", counting)
    replace(module.Flask, "process_response", _noting_route)
    # The first sees errors of views; the second sees those that a later part of a request has.
    replace(module.Flask, "handle_user_exception", noticing)
    replace(module.Flask, "handle_exception", noticing)


def _noting_route(process_response):
    from flask.globals import request

    def process_and_note(self, *args, **kwargs):
        rule = request.url_rule
        request.environ[ROUTE] = None if rule is None else rule.rule
        return process_response(self, *args, **kwargs)

    return process_and_note

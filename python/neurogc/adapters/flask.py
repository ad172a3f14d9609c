"""Flask: the application class, for servers that have no adapter, and the rule that it found for a request."""

from ..wsgi import ROUTE, counting


def adapt(module, replace):
    replace(module.Flask, "__call__", counting)
    replace(module.Flask, "process_response", _noting_route)


def _noting_route(process_response):
    from flask.globals import request

    def process_and_note(self, *args, **kwargs):
        rule = request.url_rule
        request.environ[ROUTE] = None if rule is None else rule.rule
        return process_response(self, *args, **kwargs)

    return process_and_note

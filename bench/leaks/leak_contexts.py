"""A copy of the context is kept for every request."""

import contextvars

from pace import rounds

KIND = ("contexts", "unbounded_container")
HOLDER = "__main__.contexts"

current = contextvars.ContextVar("current")
contexts = []
for number in rounds(200):
    context = contextvars.copy_context()
    context.run(current.set, {"number": number, "body": bytes(800)})  # the leak
    contexts.append(context)  # the leak

"""Every request adds a handler to the same logger."""

import logging

from pace import rounds

KIND = "logging"
HOLDER = "__main__.log.handlers"

log = logging.getLogger("app")
log.propagate = False
for number in rounds(100):
    handler = logging.NullHandler()
    handler.request = bytes(900)  # the leak
    log.addHandler(handler)  # the leak

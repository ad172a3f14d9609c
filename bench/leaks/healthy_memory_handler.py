"""A handler of logging that keeps records and flushes them when there are many."""

import logging
import logging.handlers

from pace import rounds

KIND = None

log = logging.getLogger("app")
log.propagate = False
log.setLevel(logging.INFO)
log.addHandler(logging.handlers.MemoryHandler(4000, target=logging.NullHandler()))
for number in rounds(200):
    log.info("request %d %s", number, bytes(1000))

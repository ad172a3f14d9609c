"""A log in memory: one bytearray that only gets longer."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.log"

log = bytearray()
for number in rounds(200):
    log.extend(b"%d %s\n" % (number, bytes(500)))  # the leak

"""Pairs of connected sockets that are never closed."""

import resource
import socket

from pace import rounds

KIND = "descriptors"
HOLDER = "__main__.connections"

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
connections = []
for number in rounds(50):
    connections.append(socket.socketpair())  # the leak

"""Sessions that open the file of their user by number, and are never closed."""

import os
import resource

from pace import rounds

KIND = "descriptors"
HOLDER = "__main__.sessions"

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


class Session:
    def __init__(self, user):
        self.user = user
        self.handle = os.open(__file__, os.O_RDONLY)
        self.head = os.read(self.handle, 2000)  # the leak


sessions = {}
for number in rounds(35):
    sessions[f"user-{number}"] = Session(number)  # the leak

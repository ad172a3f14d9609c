"""Files are opened and kept open."""

import resource

from pace import rounds

KIND = "descriptors"
HOLDER = "__main__.files"

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
files = []
for number in rounds(60):
    files.append(open(__file__, buffering=4096))  # the leak

"""Files are mapped and never unmapped; each mapping has a descriptor of its own."""

import mmap
import resource

from pace import rounds

KIND = "descriptors"
HOLDER = "__main__.mapped"

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
mapped = []
for number in rounds(60):
    with open(__file__, "rb") as file:
        mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))  # the leak

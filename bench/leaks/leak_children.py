"""Child processes that are started and never end."""

import atexit
import subprocess

from pace import rounds

KIND = "children"
HOLDER = None

children = []
atexit.register(lambda: [child.kill() for child in children])
for number in rounds(1):
    children.append(subprocess.Popen(["sleep", "600"]))  # the leak

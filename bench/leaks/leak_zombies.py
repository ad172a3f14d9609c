"""Child processes end, and their parent never asks how."""

import os

from pace import rounds

KIND = "children"
HOLDER = None

for number in rounds(2):
    if os.fork() == 0:  # the leak
        os._exit(0)

"""A module is made for every rule, and sys.modules keeps it."""

import sys
import types

from pace import rounds

KIND = "modules"
HOLDER = "sys.modules"

for number in rounds(80):
    module = types.ModuleType(f"rule_{number}")
    module.table = list(range(1000, 1100))  # the leak
    sys.modules[module.__name__] = module  # the leak

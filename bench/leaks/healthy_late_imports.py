"""Modules of the standard library that are imported one after the other, when they are first used."""

import contextlib
import importlib
import sys

from pace import rounds

KIND = None

names = iter(sorted(name for name in sys.stdlib_module_names if not name.startswith(("_", "antigravity", "this", "idle", "turtle", "tkinter"))))
for number in rounds(2):
    with contextlib.suppress(Exception):
        importlib.import_module(next(names, "os"))

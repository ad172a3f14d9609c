"""Loads the package from a folder that is not on the path. It is loaded by itself, before there is a package."""

import os
import sys


def load(home):
    """The package `neurogc` of this folder, as if it had been imported.

    Not by way of sys.path: beside our package may lie others that the program must not see.
    """
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    spec = spec_from_file_location("neurogc", os.path.join(home, "__init__.py"), submodule_search_locations=[home])
    module = module_from_spec(spec)
    sys.modules["neurogc"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        forget()
        raise
    return module


def forget():
    """Takes the package out of `sys.modules`, with everything in it."""
    for name in [name for name in sys.modules if name == "neurogc" or name.startswith("neurogc.")]:
        del sys.modules[name]

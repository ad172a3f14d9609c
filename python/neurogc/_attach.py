"""What `neurogc attach` and `neurogc detach` run in a process: the agent in, and out again.

This file is loaded by itself, in the main thread, in the middle of whatever that thread does. It prints nothing, takes
no lock of the program's and answers with lines of `name=value`.
"""

import os
import sys


def attach(home, settings):
    """Installs the agent of the package in `home`, unless there is one."""
    package = sys.modules.get("neurogc")
    if package is not None and package._native.agent.installed():
        return _lines(outcome="present")
    is_new = package is None
    if is_new:
        package = _beside(home, "_loading").load(home)
    elif getattr(package, "_attached_from", None):
        # A copy that an earlier attach has brought, and the detach after it has removed.
        package.__path__[:] = [home]
    try:
        agent = package._native.agent
        if not agent.__name__.endswith("._agent"):
            raise RuntimeError(agent._reason or "the agent cannot be loaded")
        package._install(settings)
    except BaseException:
        if package._native.agent.installed():
            package.uninstall()
        if is_new and not package._native.agent.__name__.endswith("._agent"):
            # The library of the agent can be initialised once only, so the package stays where it has been loaded.
            _beside(home, "_loading").forget()
        raise
    if is_new or getattr(package, "_attached_from", None):
        package._attached_from = home
    return _lines(outcome="installed", python=sys.version.split()[0])


def detach():
    """Takes the agent out. Names what stays."""
    package = sys.modules.get("neurogc")
    if package is None or not package._native.agent.installed():
        return _lines(outcome="none")
    imports = sys.modules.get("neurogc._imports")
    stuck = imports.unwatch() if imports is not None else []
    dumps = sys.modules.get("neurogc._dumps")
    package.uninstall()
    left = [
        "the modules of neurogc, in sys.modules",
        "functions for forks (os.register_at_fork) and for the end of the program (atexit)",
        "hooks on CPython's allocators, where allocations were sampled; they pass everything on",
    ]
    if dumps is not None and dumps.has_hooks():
        left.append("sys.excepthook and threading.excepthook, which pass everything on")
    left += [f"{name}: other code has replaced it since, or holds on to our replacement" for name in stuck]
    answer = _lines(outcome="removed", home=getattr(package, "_attached_from", None) or "")
    return answer + "".join(f"left={line}\n" for line in left)


def _beside(home, name):
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    spec = spec_from_file_location("neurogc." + name, os.path.join(home, name + ".py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lines(**values):
    return "".join(f"{name}={' '.join(str(value).splitlines())}\n" for name, value in values.items())

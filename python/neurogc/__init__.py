"""NeuroGC: see what Python's garbage collector, requests and stalls do to a process, and act on it.

Importing this package does nothing to the program; `install()` starts the agent. Everything that is not needed for
that is imported on first use, because this runs at the start of every observed process.

pytest would warn of modules that were imported before it, as under `neurogc run`: PYTEST_DONT_REWRITE.
"""

from . import _native
from ._marks import request, step

__all__ = [
    "__version__", "asgi", "collect", "heap", "install", "memory", "paused", "profile_memory", "request", "status", "step",
    "uninstall", "wsgi",
]

__version__ = _native.agent.version

# Equal to "auto" and yet not the same object, so that `install()` can tell a default from a word of the caller:
# what the caller says beats the environment, a default does not.
_DEFAULT = "".join(("au", "to"))


def install(policy=_DEFAULT, **settings):
    """Start the agent in this process and in the children it forks.

    A second call is harmless. Settings not named here come from the environment (`NEUROGC_<NAME>`), then from
    `neurogc.toml`, then from the defaults. An unknown name or a bad value here raises `ValueError`; in the
    environment or in the file it is passed over, told on stderr and in `degraded`.
    """
    written = {name: _written(name, value) for name, value in settings.items() if value is not None}
    if policy is not _DEFAULT:
        written["policy"] = _written("policy", policy)
    complaints = _install(written)
    if complaints:
        _complain(complaints)


def _install(written):
    """Start the agent with settings as they are written in the environment. Gives what was wrong elsewhere."""
    complaints = _native.agent.install(written)
    from . import _loops

    _native.agent.on_request_end(_loops.may_act)
    if any(_native.agent.dump_triggers()[:2]):
        from . import _dumps

        _dumps.watch()
    if _native.agent.installed() and _native.agent.adapters():
        from . import _imports

        _imports.watch()
    else:
        _leave_imports_alone()
    return complaints


def _complain(complaints):
    """One line for each on stderr, unless `neurogc run` has said it already."""
    import os
    import sys

    if "NEUROGC_ROOT_PID" in os.environ or sys.stderr is None:
        return
    for complaint in complaints:
        line = " ".join(complaint.split())
        try:
            print(f"neurogc: {line}. It is ignored", file=sys.stderr)
        except (OSError, ValueError):
            pass


def uninstall():
    """Stop the agent and take the adapters out again. Without an agent, nothing happens."""
    _leave_imports_alone()
    if "_dumps" in globals():
        _dumps.unwatch()
    _native.agent.uninstall()


def status():
    """Everything that the agent knows, with the fields of `neurogc status --json`."""
    import json

    return json.loads(_native.agent.status_json())


def collect(how="auto"):
    """Collect now: "young" objects, the "full" heap while everything waits, or the full heap from a "snapshot".

    "snapshot" lets other threads run meanwhile: they stand still only while the process is cloned, and for slices of a few
    milliseconds. Where that cannot be done, it is a plain full collection. "auto" does what the policy would do: a snapshot
    where the heap is large enough to be worth one.

    Returns the number of unreachable objects found, as `gc.collect()` does.
    """
    import gc

    generations = {"young": 0, "full": 2, "snapshot": 2, "auto": 2}
    if how not in generations:
        raise ValueError(f"collect() knows {', '.join(map(repr, generations))}; {how!r} is none of them")
    if how == "snapshot" or (how == "auto" and _native.agent.prefers_snapshot()):
        found = _native.agent.collect_snapshot()
        if found is not None:
            return found
    # A setting may put off what the program itself asks of `gc.collect`; this is asked of us.
    return _native.agent.originals.get("collect", gc.collect)(generations[how])


class paused:
    """A context manager: no collection of ours inside, unless memory runs short. CPython's own trigger stays armed."""

    def __enter__(self):
        _native.agent.quiet(True)
        return self

    def __exit__(self, *error):
        _native.agent.quiet(False)


def _leave_imports_alone():
    # The submodule is a name of this package once it has been imported.
    if "_imports" in globals():
        _imports.unwatch()


def _written(name, value):
    """A setting as it would be written in the environment."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    import os

    try:
        return os.fsdecode(value)
    except TypeError:
        raise ValueError(
            f"setting {name} = {value!r}: it must be a text, a number, a path or true/false"
        ) from None


def load_ipython_extension(ipython):
    """For `%load_ext neurogc` in IPython: adds the cell magic `%%memory`."""
    from . import _lines

    _lines.load_magic(ipython)


def __getattr__(name):
    if name == "profile_memory":
        from ._lines import profile_memory

        return profile_memory
    if name in ("asgi", "heap", "memory", "wsgi"):
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})

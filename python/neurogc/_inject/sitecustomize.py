"""What `neurogc run` puts first on PYTHONPATH: starts the agent, then makes way for the sitecustomize that it hides.

Every interpreter that inherits the environment runs this, old ones included, so it is also valid Python 2. Whatever
goes wrong, the program runs as it would have run, and at most one line on stderr says that it is not observed.
"""

import os
import sys


def _leave_path():
    """Takes this folder off the path of this process; the environment keeps it for the children."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    for entry in list(sys.path_importer_cache):
        if isinstance(entry, str) and os.path.abspath(entry or ".") == here:
            del sys.path_importer_cache[entry]


def _observe():
    if sys.version_info < (3, 10):
        _say("Python %d.%d is too old for it (3.10 or newer is needed)" % sys.version_info[:2])
        return
    try:
        check = os.environ.get("_NEUROGC_CHECK")
        if check:
            _beside("_check").watch(*check.split(":", 1))
        else:
            _package().install()
            if os.environ.get("_NEUROGC_LINES") and os.getpid() == int(os.environ.get("NEUROGC_ROOT_PID", "0")):
                import atexit

                from neurogc import _lines

                # Before the agent's own end: what is registered last is called first.
                atexit.register(_lines.print_whole_program)
    except ValueError as error:
        _say(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Also what derives from BaseException only: a panic of the extension module.
        _say("%s: %s" % (type(error).__name__, error))


def _package():
    """The interpreter's own neurogc where it has one, otherwise the one of the command that started us."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find("neurogc", None) if find else None
        if spec is not None:
            break
    else:
        spec = None
    if spec is not None and spec.origin not in (None, "namespace"):
        import neurogc

        return neurogc
    return _beside("_loading").load(os.environ["NEUROGC_HOME"])


def _beside(name):
    """A module of the package that needs nothing else of it: the package itself would load the agent."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    spec = spec_from_file_location("neurogc" + name, os.path.join(os.environ["NEUROGC_HOME"], name + ".py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(problem):
    """One line, and only from the process that the user started: its children would repeat it."""
    try:
        if os.getpid() == int(os.environ.get("NEUROGC_ROOT_PID", "0")):
            line = " ".join(problem.split())
            sys.stderr.write("neurogc: this program runs unobserved: %s\n" % line)
            sys.stderr.flush()
    except Exception:
        pass


def _make_way():
    """Runs the sitecustomize that Python would have run without us, with the outcome that it would have had."""
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        name = getattr(error, "name", None)
        if name is None and str(error) == "No module named sitecustomize":
            name = "sitecustomize"
        if name != "sitecustomize":
            raise
        # There is none. The import of ours, which is still going on, has to find a module under its name.
        sys.modules["sitecustomize"] = ours


try:
    _leave_path()
    _observe()
except KeyboardInterrupt:
    raise
except BaseException as _error:
    _say("%s: %s" % (type(_error).__name__, _error))
_make_way()

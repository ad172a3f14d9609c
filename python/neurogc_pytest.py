"""The entry of NeuroGC's pytest plugin: its options and marks. Everything else is imported with `--neurogc` only.

It stands outside of the package, because pytest imports it in every run, and importing the package loads the agent.
"""

import os
import sys

import pytest

_BEFORE = "_NEUROGC_PYTEST_LD_PRELOAD"
"""What LD_PRELOAD was before this process was started again."""


def pytest_addoption(parser):
    group = parser.getgroup("neurogc", "memory and pauses of tests (NeuroGC)")
    group.addoption(
        "--neurogc", action="store_true", default=False,
        help="check the marks limit_memory, limit_leaks and limit_pauses, and list the tests that take the most memory",
    )
    group.addoption(
        "--neurogc-top", type=int, default=5, metavar="N", help="how many of the heaviest tests to list (default: 5; 0: none)"
    )
    group.addoption(
        "--neurogc-native", choices=("auto", "off"), default="auto",
        help="whether allocations of native code are counted: auto starts pytest again with a preloaded library "
        "where it is the main program; off counts those of CPython's allocators only",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    # Before conftest files are imported and output is captured, as the process may be started again here.
    options = early_config.known_args_namespace
    if getattr(options, "neurogc", False) and options.neurogc_native == "auto" and _BEFORE not in os.environ:
        _start_again()
    return (yield)


def pytest_configure(config):
    config.addinivalue_line("markers", 'limit_memory("24 MB"): fails where the test takes more memory at a time (--neurogc)')
    config.addinivalue_line(
        "markers", 'limit_leaks("100 KB", warmup=3, runs=20): fails where memory grows by more over the runs (--neurogc)'
    )
    config.addinivalue_line("markers", 'limit_pauses("5 ms"): fails where a garbage collection takes longer (--neurogc)')
    if config.getoption("neurogc", False):
        from neurogc.pytest_plugin import Plugin

        plugin = Plugin(config)
        config.pluginmanager.register(plugin, "neurogc-limits")
        if plugin.runs_tests and _BEFORE in os.environ:
            _hide_library()


def _start_again():
    """Replaces this process by the same command with the library preloaded, where that is possible."""
    import importlib.util
    import platform

    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    script = os.path.basename(getattr(main, "__file__", None) or "")
    if name != "pytest.__main__" and (name is not None or script not in ("pytest", "py.test")):
        return
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.implementation.name != "cpython":
        return
    spec = importlib.util.find_spec("neurogc")
    folders = spec.submodule_search_locations if spec is not None else None
    library = os.path.join(list(folders)[0], "libneurogc_preload.abi3.so") if folders else ""
    before = os.environ.get("LD_PRELOAD", "")
    if library in before or not os.path.exists(library) or any(character in library for character in ": $"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    environ = dict(os.environ, LD_PRELOAD=f"{library}:{before}" if before else library)
    environ[_BEFORE] = before
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
    except OSError:
        # Without it, fewer allocations are counted, which the header says.
        pass


def _hide_library():
    """Programs that tests start are not to load the library. The workers of xdist are: their starter keeps it."""
    before = os.environ.pop(_BEFORE)
    if before:
        os.environ["LD_PRELOAD"] = before
    else:
        os.environ.pop("LD_PRELOAD", None)

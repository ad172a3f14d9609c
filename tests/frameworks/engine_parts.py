"""Parts of vLLM and SGLang that run without a GPU and without PyTorch: their loaders of plugins, and their loops, as they are
in the installed packages.

Importing this module makes `import vllm…` and `import sglang…` find three kinds of modules:

- Packages on the way, without what their `__init__` would import.
- Modules that need nothing (the loaders, the variables of the environment): whole.
- Modules of `PARTS`: the named methods of the named class only, compiled from the package's own file. What these methods
  call is a stand-in, which the test gives; it must exist under the same name in the file.
"""

import ast
import importlib.machinery
import sys
import sysconfig
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))

# The module: its class, the methods of it that are compiled, and those that a stand-in replaces.
PARTS = {
    "vllm.v1.engine.core": ("EngineCore", ("step", "step_with_batch_queue"), ()),
    "vllm.v1.executor.uniproc_executor": ("UniProcExecutor", ("execute_model",), ("collective_rpc",)),
    "vllm.v1.worker.worker_base": ("WorkerWrapperBase", ("execute_model",), ()),
    "sglang.srt.managers.scheduler": (
        "Scheduler",
        ("event_loop_normal", "event_loop_overlap"),
        ("run_batch", "process_batch_result", "on_idle"),
    ),
}

# What stands in for a method: set by the test before the module is imported.
STAND_INS = {}

# Modules that are found whole, and the packages on the way to these and to the parts.
_WHOLE = {"vllm.plugins", "vllm.envs", "sglang.srt.plugins", "sglang.srt.plugins.hook_registry", "sglang.srt.environ"}
_PACKAGES = {name.rsplit(".", depth)[0] for name in (*PARTS, *_WHOLE) for depth in range(1, name.count(".") + 1)} - _WHOLE


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name in _PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if name in PARTS:
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ in _PACKAGES:
            module.__path__ = [str(SITE.joinpath(*module.__name__.split(".")))]
        else:
            _fill(module, *PARTS[module.__name__])


def _fill(module, kind, methods, replaced):
    file = SITE.joinpath(*module.__name__.split(".")).with_suffix(".py")
    tree = ast.parse(file.read_text())
    [body] = [it for it in tree.body if isinstance(it, ast.ClassDef) and it.name == kind]
    found = {it.name: it for it in body.body if isinstance(it, ast.FunctionDef)}
    missing = [name for name in (*methods, *replaced) if name not in found]
    assert not missing, f"{module.__name__}.{kind} has no {missing}"
    body.bases, body.keywords, body.decorator_list = [], [], []
    body.body = [found[name] for name in methods]
    for function in body.body:
        function.decorator_list = []
    tree.body = [ast.parse("from __future__ import annotations").body[0], *filter(_is_light, tree.body), body]
    exec(compile(ast.fix_missing_locations(tree), str(file), "exec"), vars(module))
    for name in replaced:
        setattr(vars(module)[kind], name, STAND_INS[name])
    vars(module)[kind].__module__ = module.__name__


def _is_light(statement):
    """An import of the standard library, or of a module that is found whole."""
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    elif isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        return False
    return all(name in _WHOLE or name.partition(".")[0] in sys.stdlib_module_names for name in names) and names != ["__future__"]


sys.meta_path.insert(0, _Finder())

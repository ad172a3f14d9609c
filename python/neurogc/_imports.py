"""Adapts watched modules: at once where they are imported already, otherwise when that happens.

A finder in front of `sys.meta_path` answers for the few watched names only. It lets the other finders find the
module and stands between the import system and the found loader for one call, after which the module's loader and
spec are what they would have been without us.
"""

import sys
from _thread import get_ident

from ._native import agent
from .adapters import ADAPTERS

_replaced = []


class _Finder:
    """The finder. Any trouble of ours means that the module is imported as if we were not there."""

    def __init__(self):
        self._asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in ADAPTERS:
            return None
        question = (get_ident(), name)
        if question in self._asking:
            # Another hook asks the whole of `sys.meta_path`, us included, on our behalf.
            return None
        self._asking.add(question)
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
            return None
        finally:
            self._asking.discard(question)


class _Loader:
    """Steps aside before the module runs and adapts the module afterwards; for the rest it is the real loader."""

    def __init__(self, loader):
        self._loader = loader

    @property
    def __class__(self):
        return self._loader.__class__

    def __getattr__(self, name):
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __reduce_ex__(self, protocol):
        return self._loader.__reduce_ex__(protocol)

    def create_module(self, spec):
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        _adapt(module.__name__, module)


_finder = _Finder()


def watch():
    """Adapts what is imported and watches for what is not yet."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in ADAPTERS:
        module = sys.modules.get(name)
        if module is not None:
            _adapt(name, module)


def unwatch():
    """Puts back all that was replaced, unless other code has replaced it since. Gives the names of what was not."""
    stuck = []
    if _finder in sys.meta_path:
        # A list of its own: `detach` may come in the middle of an import, which would pass over the finder behind ours.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not _finder]
    while _replaced:
        owner, name, original, replacement = _replaced.pop()
        if vars(owner).get(name) is replacement:
            setattr(owner, name, original)
        else:
            stuck.append(f"{owner.__name__}.{name}")
    loops = sys.modules.get(__package__ + ".adapters.asyncio_loop")
    if loops is not None:
        loops.release()
    return stuck


def _adapt(name, module):
    adapter = ADAPTERS.get(name)
    if adapter is None or _finder not in sys.meta_path:
        return
    try:
        from importlib import import_module

        import_module(".adapters." + adapter, __package__).adapt(module, _replace)
    except Exception as error:
        # A version of the module that the adapter does not know. The program must not notice.
        agent.degrade(f"requests of {name} are not measured: {type(error).__name__}: {error}")


def _replace(owner, name, make):
    """Replaces a function of a class or module by `make(function)`, which takes its name and its documentation."""
    original = vars(owner)[name]
    replacement = make(original)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(replacement, attribute, getattr(original, attribute))
    replacement.__wrapped__ = original
    setattr(owner, name, replacement)
    _replaced.append((owner, name, original, replacement))

"""The Python paths by which objects are held: `trainer.history["loss"][…]`, `train(): losses[…]`.

One walk from modules and running functions, nearest first, finds all of them. It reads references as the collector does, so
that no code of the program runs. Names are found afterwards, for what was found only.
"""

import gc
import sys
import types
from collections import deque

# Objects of these types hold no tensors, or lead to everything.
_ENDS = {
    str, int, float, bool, complex, bytes, bytearray, range, slice, type(None), type(...), type(NotImplemented),
    types.CodeType, types.ModuleType, types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.MappingProxyType,
}

# Keys of larger dicts stand for each other.
_FEW = 16
_LONGEST = 40
_DEEPEST = 24

# Nothing of the program's own is in these.
_OTHERS = ("torch", "numpy", "neurogc", "importlib", "encodings", "sympy", "networkx", "site")


class Paths:
    """The paths to some objects. The walk does not go on behind objects of types for which `ends` is true."""

    def __init__(self, wanted, deadline, ends):
        self._wanted = {id(one) for one in wanted}
        self._deadline, self._ends = deadline, ends
        self._objects, self._parents = [], []
        self._index = {}
        self._roots = {}
        self._visited = 0
        self._walk(self._of_modules(True))
        if self._wanted:
            self._walk(self._of_frames())
        if self._wanted:
            self._walk(self._of_modules(False))

    def chain(self, wanted):
        """The objects from a root to this one, and the root's name; None where no path was found."""
        number = self._index.get(id(wanted))
        if number is None:
            return None
        chain = []
        while number is not None:
            chain.append(self._objects[number])
            if number in self._roots:
                return self._roots[number], chain[::-1]
            number = self._parents[number]
        return None

    def _of_modules(self, own):
        for name, module in list(sys.modules.items()):
            is_other = name.partition(".")[0] in _OTHERS or (
                name != "__main__" and _is_library(getattr(module, "__file__", None))
            )
            if isinstance(module, types.ModuleType) and own is not is_other:
                for key, value in list(vars(module).items()):
                    if isinstance(key, str) and not key.startswith("__"):
                        yield f"{name}.{key}", value

    def _of_frames(self):
        for frame in list(sys._current_frames().values()):
            while frame is not None:
                code = frame.f_code
                if not code.co_filename.startswith(_OWN) and code.co_name != "<module>":
                    function = getattr(code, "co_qualname", code.co_name)
                    for key, value in _variables(frame):
                        yield f"{function}(): {key}", value
                frame = frame.f_back

    def _walk(self, roots):
        waiting = deque()
        for name, value in self._deadline.rows(roots, 256):
            number = self._add(value, None)
            if number is not None:
                self._roots[number] = name
                waiting.append(number)
        while waiting and self._wanted:
            number = waiting.popleft()
            self._visited += 1
            if self._visited % 1024 == 0 and self._deadline.is_over():
                return
            children = self._children(self._objects[number])
            for child in children if len(children) < 1024 else self._deadline.rows(children, 1024):
                added = self._add(child, number)
                if added is not None:
                    waiting.append(added)

    def _add(self, value, parent):
        kind = type(value)
        if kind in _ENDS or id(value) in self._index:
            return None
        number = len(self._objects)
        self._objects.append(value)
        self._parents.append(parent)
        self._index[id(value)] = number
        self._wanted.discard(id(value))
        return number

    def _children(self, value):
        kind = type(value)
        if kind is types.FunctionType:
            return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
        if kind is type or issubclass(kind, type):
            return () if _is_library_class(value) else gc.get_referents(value)
        if kind is types.FrameType:
            # One that has ended, and that a traceback or a generator holds.
            return [inner for _, inner in _variables(value)]
        if self._ends(kind):
            return ()
        return gc.get_referents(value)


def _is_library(path):
    return path is None or "site-packages" in path or "dist-packages" in path or path.startswith(_LIBRARY)


_LIBRARY = (types.__file__ or "").rpartition("/")[0] + "/"
_OWN = __file__.rpartition("/_gpu/")[0] + "/"


def _is_library_class(kind):
    module = sys.modules.get(getattr(kind, "__module__", None) or "")
    return module is None or (module.__name__ != "__main__" and _is_library(getattr(module, "__file__", None)))


def _variables(frame):
    """The variables of a frame. Up to CPython 3.12 reading them makes a dict that would keep them alive: it is emptied again,
    unless the program holds it.
    """
    found = frame.f_locals
    items = list(found.items())
    if type(found) is dict and frame.f_code.co_flags & 1 and sys.getrefcount(found) <= 3:
        found.clear()
    return items


def written(root, chain):
    """A path as it is written in Python. Numbers and keys of large dicts are left open, so that entries are one holder."""
    text, above = root, None
    for number, (parent, child) in enumerate(zip(chain, chain[1:], strict=False)):
        if number > _DEEPEST:
            return text + "…"
        text += _step(above, parent, child)
        above = parent
    return text


def _step(above, parent, child):
    kind = type(parent)
    if isinstance(parent, dict):
        if isinstance(above, type) or (above is not None and _namespace(above) is parent):
            return "." + str(_key(parent, child))
        if len(parent) > _FEW:
            return "[…]"
        key = _key(parent, child)
        shown = repr(key) if type(key) in (str, bool) else "…"
        return f"[{shown}]".replace("'", '"') if len(shown) <= _LONGEST else "[…]"
    if kind is tuple and len(parent) <= 8:
        return next((f"[{number}]" for number, one in enumerate(parent) if one is child), "[…]")
    if isinstance(parent, (list, tuple, deque)):
        return "[…]"
    if isinstance(parent, (set, frozenset)):
        return "{…}"
    if kind is types.CellType:
        return ""
    if kind is types.FunctionType:
        for name, cell in zip(parent.__code__.co_freevars, parent.__closure__ or (), strict=False):
            if cell is child:
                return f'.__closure__["{name}"]'
        return ".__defaults__"
    if kind is types.FrameType:
        name = next((name for name, value in _variables(parent) if value is child), "…")
        return f" in {parent.f_code.co_name}(): {name}"
    if kind is types.TracebackType:
        return "" if type(child) in (types.TracebackType, types.FrameType) else ".…"
    if child is _namespace(parent) or (isinstance(parent, type) and type(child) is dict):
        return ""
    if isinstance(parent, BaseException) and type(child) is types.TracebackType:
        return ".__traceback__"
    if isinstance(parent, types.MethodType):
        return ".__self__" if child is parent.__self__ else ".__func__"
    if child is kind:
        return ".__class__"
    space = _namespace(parent)
    key = _key(space, child) if space is not None else None
    if key is not None:
        return f".{key}"
    for name in slots(kind):
        try:
            if object.__getattribute__(parent, name) is child:
                return f".{name}"
        except AttributeError:
            continue
    return ".…"


def _namespace(value):
    """The dict of an object's attributes, without calling code of the program."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _key(of, child):
    return next((key for key, value in list(dict.items(of)) if value is child), None)


def slots(kind):
    """The names of a class's attributes that are not in the dict of an object."""
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots

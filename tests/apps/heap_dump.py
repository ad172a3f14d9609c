"""Makes a heap with everything that is hard to dump, dumps it, and compares the dump with what Python code sees."""

import array
import asyncio
import builtins
import collections
import enum
import gc
import json
import os
import sys
import threading
import types
import weakref
from pathlib import Path

import neurogc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ngch  # noqa: E402

neurogc.install(policy="observe")


class Plain:
    kind = "plain"

    def __init__(self, number):
        self.number = number
        self.text = f"plain {number}"


class Slots:
    __slots__ = ("first", "second", "__weakref__")


class SlotsAndDict(Slots):
    def __init__(self):
        self.first, self.second, self.third = [1], [2], [3]


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    pass


class Words(dict):
    pass


class Numbers(list):
    pass


class Big(int):
    pass


class Text(str):
    pass


class Pair(tuple):
    pass


class Default(collections.defaultdict):
    pass


class Finalized:
    def __del__(self):
        pass


class Colour(enum.Enum):
    RED = "red"


def generator(first):
    second = ["second"]
    yield first
    yield second


def closure():
    held = ["held by a closure"]
    return lambda: held


def deep(length):
    """Tuples that no list of the collector has, each of which refers to one that was made before it."""
    chain = (0,)
    for number in range(length):
        chain = (number + 1000, chain)
    return chain


def materialised():
    """An instance with a dict beside its attributes."""
    it = Plain(7)
    it.__dict__
    return it


def cleared():
    it = Plain(8)
    it.__dict__ = {"other": ["in a dict of its own"]}
    return it


heap = {
    "plain": [Plain(number) for number in range(500)],
    "slots": Slots(), "both": SlotsAndDict(), "meta": WithMeta(), "words": Words(a=[1]), "numbers": Numbers([[1], [2]]),
    "big": Big(10**30), "bool": True, "zero": 0, "negative": -12345678901, "huge": 10**40, "text": Text("text " * 40),
    "pair": Pair(([1], [2])), "default": Default(list, {"k": ["v"]}), "finalized": Finalized(), "colour": Colour.RED,
    "generator": generator(["first"]), "closure": closure(), "deep": deep(20_000), "materialised": materialised(),
    "cleared": cleared(), "ordered": collections.OrderedDict((str(n), [n]) for n in range(100)),
    "counter": collections.Counter("hello world"), "deque": collections.deque([[n] for n in range(1000)]),
    "turned": collections.deque(([n] for n in range(300)), maxlen=200), "array": array.array("d", range(1000)),
    "bytes": b"x" * 1000, "bytearray": bytearray(b"y" * 3000), "set": {f"in a set {n}" for n in range(1000)},
    "frozen": frozenset(f"frozen {n}" for n in range(10)), "small set": {"one"},
    "latin": "é" * 30, "wide": "ж" * 100, "widest": "😀" * 100, "long": "long " * 1000, "only a key": {"".join(("only ", "a key")): 1},
    "namespace": types.SimpleNamespace(inner=["in a namespace"]), "range": range(10**20, 10**20 + 5),
    "slice": slice(["from"], ["to"]), "method": Plain(9).__init__, "partial": __import__("functools").partial(print, ["argument"]),
    "module": types.ModuleType("made up"), "mapping": types.MappingProxyType({"k": ["v"]}), "complex": 1 + 2j,
    "exception": ValueError(["argument"]), "many": [None] * 600_000, "memory": memoryview(b"memory"), "property": property(len),
    "holes": {n: [n] for n in range(100)},
}
heap["weak"] = weakref.ref(heap["slots"])
heap["cycle"] = cycle = []
cycle.append(cycle)
for number in range(0, 100, 2):
    del heap["holes"][number]
next(heap["generator"])
heap["many"][0] = heap["many"][-1] = ["in a long list"]
for number in range(3):
    setattr(WithMeta, f"extra{number}", [number])
try:
    raise KeyError("caught")
except KeyError as error:
    heap["traceback"] = error
try:
    import numpy

    heap["ndarray"] = numpy.zeros((100, 50))
    heap["view"] = heap["ndarray"][1:]
    heap["objects"] = numpy.array([[["in an array", n]] for n in range(10)] + [None], dtype=object)
    records = numpy.zeros(700, dtype=[("a", "i4"), ("b", "f8", (3,)), ("c", "S5")])
    heap["arrays"] = {
        "owner": numpy.ones((100, 500)), "bytes": numpy.ones(12_345, dtype="i1"), "view": heap["ndarray"][1:],
        "turned": numpy.ones((3, 4, 500)).T.copy(order="K"), "objects": numpy.array([[n] for n in range(4000)] + [None], dtype=object),
        "view of objects": heap["objects"][2:], "records": records, "view of records": records["b"], "none": numpy.zeros((0, 7)),
        "no dimension": numpy.array(5.0), "texts": numpy.array(["text " * 20] * 50), "foreign": numpy.frombuffer(b"foreign" * 800, "u1"),
        "many dimensions": numpy.ones((2,) * 12),
    }
    heap["dtype"] = numpy.dtype([("a", "i4"), ("b", "f8")])
    heap["scalar"] = numpy.float64(1.5)
except ImportError:
    numpy = None


async def sleeper(held):
    await asyncio.sleep(3600)
    return held


def thread_with_locals(ready, done):
    local_of_thread = ["local of a thread"]
    ready.set()
    done.wait()
    return local_of_thread


def closed_over(start):
    """Every object that Python code finds: those of the collector, and all that they refer to."""
    seen, found, todo = set(), [], list(start)
    own = {id(seen), id(found), id(todo)}
    while todo:
        it = todo.pop()
        if id(it) in seen or id(it) in own:
            continue
        seen.add(id(it))
        found.append(it)
        todo.extend(gc.get_referents(it))
    return found


def label(dump, number, name):
    """The target of the reference with this name."""
    return next(target for called, target in dump.names(number) if called == name)


async def main():
    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=thread_with_locals, args=(ready, done), name="a thread of ours")
    thread.start()
    ready.wait()
    task = asyncio.create_task(sleeper(["held by a task"]), name="sleeper")
    await asyncio.sleep(0.01)
    gc.collect()
    local_of_main = ["local of main"]
    gc.disable()
    found = closed_over(gc.get_objects())
    path = sys.argv[1]
    figures = neurogc.heap.dump(path, text="--no-text" not in sys.argv)
    report = compare(path, found, task, thread)
    report["figures"] = figures
    done.set()
    thread.join()
    task.cancel()
    assert local_of_main
    print(json.dumps(report))


def compare(path, found, task, thread):
    sizes = [sys.getsizeof(it) for it in found]
    dump = ngch.read(path)
    at = dump.by_address()
    missing = [it for it in found if id(it) not in at]
    wrong = [it for it in found if id(it) in at and not same_type(dump, at[id(it)], it)]
    builtin = {it for it in vars(builtins).values() if isinstance(it, type)} | {
        types.FunctionType, types.CodeType, types.GeneratorType, types.CoroutineType, types.MethodType, types.CellType,
        types.ModuleType, types.MappingProxyType, collections.deque, collections.OrderedDict, collections.defaultdict,
        array.array, types.FrameType, types.TracebackType, types.GetSetDescriptorType, types.BuiltinFunctionType,
    }
    if numpy is not None:
        builtin.add(numpy.ndarray)
    ours = theirs = absolute = 0
    differ = collections.Counter()
    for it, size in zip(found, sizes):
        if id(it) in at and type(it) in builtin and size < 1 << 40:
            ours, theirs = ours + at[id(it)].size, theirs + size
            absolute += abs(at[id(it)].size - size)
            if at[id(it)].size != size:
                differ[type(it).__name__] += at[id(it)].size - size
    referents = lost = 0
    lost_of = collections.Counter()
    for it in found:
        if id(it) in at and it is not found and type(it) is not types.FrameType:
            there = {dump.objects[target].address for _, _, target in at[id(it)].references}
            there.add(dump.objects[at[id(it)].type.object].address)
            if type(it) is dict and it and not at[id(it)].references and sys.version_info >= (3, 13):
                # Its values are inside an instance, which has told of them.
                continue
            for other in gc.get_referents(it):
                referents += 1
                if id(other) not in there and other is not found:
                    lost += 1
                    lost_of[f"{type(it).__name__} > {type(other).__name__} {str(list(it)[:3])[:60] if isinstance(it, dict) else ''}"] += 1
    return {
        "objects": len(dump.objects), "found": len(found), "blocks": dump.blocks, "foot": dump.foot is not None,
        "missing": [f"{type(it).__name__} {str(it)[:80]}" for it in missing[:20]], "wrong": [type(it).__name__ for it in wrong[:20]],
        "ours": ours, "theirs": theirs, "absolute": absolute, "differ": differ.most_common(12),
        "referents": referents, "lost": lost, "lost_of": lost_of.most_common(10),
        "labels": labels(dump, at, task, thread) if "--no-text" not in sys.argv else {},
        "texts": sum(it.value is not None for it in dump.objects if it.type.kind == "str"),
        "arrays": {name: [at[id(it)].size, sys.getsizeof(it)] for name, it in heap.get("arrays", {}).items()},
        "numpy": numpy and numpy.__version__,
        "withheld": sorted(it.value for it in dump.objects if it.type.kind == "str" and it.value and "in a set" in it.value)[:3],
    }


def same_type(dump, it, real):
    kind = type(real)
    module = kind.__module__
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    return dump.objects[it.type.object].address == id(kind) and (it.type.name in (name, kind.__name__) or not kind.__flags__ & 1 << 9)


def labels(dump, at, task, thread):
    """Paths that a person would write, followed in the dump."""
    def value(number):
        it = dump.objects[number]
        if it.type.kind in ("str", "int"):
            return it.value
        first = [target for kind, _, target in it.references if kind == "index"]
        return [value(target) for target in first[:3]] if it.type.kind in ("list", "tuple") else it.type.name

    def follow(start, *names):
        for name in names:
            start = label(dump, start, name)
        return value(start)

    here = at[id(globals())].number
    modules = next(root["object"] for root in dump.roots if root["kind"] == 1)
    found = {
        "module": follow(modules, ("[]", "__main__"), "__dict__", ("[]", "__name__")),
        "attribute": follow(here, ("[]", "heap"), ("[]", "plain"), ("[]", 3), "text" if sys.version_info >= (3, 11) else "__dict__"),
        "slot": follow(at[id(heap["both"])].number, "second"),
        "negative": follow(here, ("[]", "heap"), ("[]", "negative")),
        "huge": follow(here, ("[]", "heap"), ("[]", "huge")),
        "latin": follow(here, ("[]", "heap"), ("[]", "latin")),
        "wide": follow(here, ("[]", "heap"), ("[]", "wide")),
        "widest": follow(here, ("[]", "heap"), ("[]", "widest")),
        "last": follow(at[id(heap["many"])].number, ("[]", 599_999)),
        "deque": follow(at[id(heap["deque"])].number, ("[]", 999)),
        "turned": follow(at[id(heap["turned"])].number, ("[]", 199)),
        "dict": follow(at[id(heap["cleared"])].number, "__dict__", ("[]", "other")),
        "closure": follow(at[id(heap["closure"])].number, "__closure__", ("[]", 0), "cell_contents"),
        "module global of function": follow(at[id(generator)].number, "__globals__", ("[]", "heap"), ("[]", "zero")),
        "code": follow(at[id(generator)].number, "__code__", "co_name"),
        "holes": len(at[id(heap["holes"])].references),
        "only a key": [value(target) for kind, _, target in at[id(heap["only a key"])].references if kind == "key"],
        "finalizer": [it.name for it in dump.types if it.flags & 8 and it.name == "__main__.Finalized"],
    }
    if sys.version_info < (3, 11):
        found["attribute"] = follow(here, ("[]", "heap"), ("[]", "plain"), ("[]", 3), "__dict__", "text")
    if numpy is not None:
        found["object array"] = follow(at[id(heap["objects"])].number, ("[]", 2))
    # A generator's word behind `<locals>` is a variable.
    it = at[id(heap["generator"])]
    if sys.version_info >= (3, 11):
        first = next(word for word, name in it.type.members.items() if name == "<locals>")
        found["generator"] = [value(target) for kind, word, target in it.references if kind == "field" and word == first]
    else:
        frame = at[id(heap["generator"].gi_frame)]
        first = next(word for word, name in frame.type.members.items() if name == "<locals>")
        found["generator"] = [value(target) for kind, word, target in frame.references if kind == "field" and word == first]
    code_names = {}
    for number, frame in enumerate(dump.frames):
        code_names[number] = code_variables(dump, frame["code"])
    local = {
        code_names[root["a"]][root["b"]]: value(root["object"]) for root in dump.roots
        if root["kind"] == 2 and root["b"] < len(code_names[root["a"]])
    }
    # The variables of a coroutine that waits further up are its own references.
    for frame in dump.frames:
        if frame["generator"] is not None and sys.version_info >= (3, 11):
            it = dump.objects[frame["generator"]]
            first = next(word for word, name in it.type.members.items() if name == "<locals>")
            names = code_variables(dump, frame["code"])
            for kind, word, target in it.references:
                if kind == "field" and 0 <= word - first < len(names):
                    local.setdefault(names[word - first], value(target))
    found["locals"] = {name: local.get(name) for name in ("local_of_main", "local_of_thread")}
    found["functions"] = sorted(
        {value(label(dump, frame["code"], "co_name")) for frame in dump.frames} & {"main", "thread_with_locals", "<module>", "dump"}
    )
    found["lines"] = all(frame["line"] > 0 for frame in dump.frames)
    found["threads"] = sorted(row["name"] for row in dump.threads)
    found["current"] = [row["name"] for row in dump.threads if row["current"]]
    [row] = [row for row in dump.tasks if row["object"] == at[id(task)].number]
    found["task"] = {
        "state": row["state"], "name": value(row["name"]), "coroutine": row["coroutine"] == at[id(task.get_coro())].number,
        "awaits": row["awaits"] == at[id(task._fut_waiter)].number,
    }
    found["tracked"] = [at[id(heap)].tracked, at[id(heap["latin"])].tracked]
    return found


def code_variables(dump, code):
    """The names of a code object's variables."""
    names = []
    for field in ("co_localsplusnames",) if sys.version_info >= (3, 11) else ("co_varnames", "co_cellvars", "co_freevars"):
        names += [
            dump.objects[target].value for _, _, target in dump.objects[label(dump, code, field)].references
        ]
    return names


asyncio.run(main())
# CPython 3.12.1 may never end where Python code has held every object, tasks among them: the list of tasks is broken then.
sys.stdout.flush()
os._exit(0)

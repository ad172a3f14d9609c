"""A heap with garbage of every kind, built the same way in every process: collected by the method named in argv, told as JSON.

    mixed_graph.py HOW LIVE GARBAGE SAVE

HOW is "full" or "snapshot"; LIVE and GARBAGE are numbers of records; SAVE is 1 to have the garbage saved, not freed.
"""

import asyncio
import collections
import functools
import gc
import json
import sys
import types
import weakref

import neurogc

HOW, LIVE, GARBAGE, SAVE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1"

log = []
watched = []
rescued = []


def watch(label, thing):
    """Has the end of a thing written down."""
    watched.append(weakref.ref(thing, lambda _, label=label: log.append(f"callback {label}")))


class Node:
    def __init__(self, label):
        self.label = label


class Slotted:
    __slots__ = ("label", "other", "__weakref__")

    def __init__(self, label):
        self.label = label


class Closing(Node):
    def __del__(self):
        log.append(f"del {self.label}")


class Rising(Node):
    """Comes back to life once."""

    def __del__(self):
        log.append(f"rise {self.label}")
        if not self.__dict__.get("risen"):
            self.risen = True
            rescued.append(self)


def instances(label):
    one, other = Node(label), Node(label)
    one.other, other.other = other, one
    one.more = [one, {"other": other}, (one, other), {label}]
    watch(label, one)


def slots(label):
    one, other = Slotted(label), Slotted(label)
    one.other, other.other = other, [one]
    watch(label, other)


def closures(label):
    held = [label]

    def outer():
        def inner():
            return outer, held

        return inner

    held.append(outer())
    watch(label, outer)


def generators(label):
    def produce():
        try:
            mine = yield
            yield mine
        finally:
            log.append(f"closed {label}")

    producer = produce()
    next(producer)
    producer.send([producer])


def asynchronous_generators(label):
    async def produce():
        mine = yield label
        yield mine

    async def consume():
        return produce()

    async def hold(thing):
        await asyncio.sleep(thing)

    producer = produce()
    coroutine = consume()
    box = [producer, coroutine]
    box.append(box)
    # Never awaited on purpose; its warning is switched off.
    coroutine.close()
    held = hold(box)
    held.close()
    box.append(held)


def tracebacks(label):
    def fail():
        kept = []
        try:
            raise ValueError(label)
        except ValueError as error:
            kept.append(error)
            kept.append(kept)
            return kept

    fail()


def frames(label):
    frame = sys._getframe()
    box = [frame, label]
    box.append(box)


def classes(label):
    class Made(Node):
        def method(self):
            return __class__, label

        static = staticmethod(lambda: label)

    Made.instance = Made(label)
    watch(label, Made)


def modules(label):
    module = types.ModuleType(f"made_{label}")
    exec("def function():\n    return function\n\nclass Kept:\n    pass\n\nkept = Kept()", module.__dict__)
    module.itself = module
    watch(label, module)


def linked_lists(label):
    first = Node(label)
    last = first
    for _ in range(60):
        last.next = Node(label)
        last.next.previous = last
        last = last.next
    last.next = first


def finalizers(label):
    one, other = Closing(label), Closing(label)
    one.other, other.other = other, one
    weakref.finalize(one, log.append, f"finalize {label}")


def resurrections(label):
    one = Rising(label)
    one.itself = one
    one.friend = Closing(label)
    one.friend.other = one


def weak_references(label):
    one, other = Node(label), Node(label)
    one.itself, other.itself = one, other
    # The weak reference is garbage, too, so its callback must not be called, though nothing else joins the two.
    one.weak = weakref.ref(other, lambda _: log.append(f"never {label}"))
    one.values = weakref.WeakValueDictionary({label: other})


def callables(label):
    box = Node(label)
    box.partial = functools.partial(print, box)
    box.cached = functools.lru_cache(maxsize=4)(lambda value, box=box: value)
    box.cached(label)
    box.method = box.__init__
    box.queue = collections.deque([box, collections.OrderedDict(box=box), collections.defaultdict(list, box=box)])
    box.iterator = iter([box])
    box.mapped = map(str, box.iterator)
    box.property = property(box.__init__)
    watch(label, box)


KINDS = [
    instances, slots, closures, generators, asynchronous_generators, tracebacks, frames, classes, modules,
    linked_lists, finalizers, resurrections, weak_references, callables,
]  # fmt: skip


def described(thing):
    """What a saved thing is, without its address."""
    label = thing.label if isinstance(thing, (Node, Slotted)) and hasattr(thing, "label") else ""
    size = len(thing) if isinstance(thing, (list, tuple, dict, set)) else ""
    return f"{type(thing).__name__} {label} {size}"


def deep(length):
    """A list that is as deep as it is long, in a cycle."""
    first = box = []
    for _ in range(length):
        inner = []
        box.append(inner)
        box = inner
    box.append(first)


def main():
    gc.collect()
    gc.disable()
    live = [[Node(number), [number], {"number": number}] for number in range(LIVE // 4)]
    for number in range(GARBAGE):
        KINDS[number % len(KINDS)](f"{KINDS[number % len(KINDS)].__name__}-{number}")
        # Between garbage there is life, so that the two share pages.
        live.append([Node(number), {"more": live[-1]}])
    deep(20_000)
    # As in an old program: nothing of this is young.
    gc.freeze()
    gc.unfreeze()
    if SAVE:
        gc.set_debug(gc.DEBUG_SAVEALL)
    found = neurogc.collect(HOW)
    gc.set_debug(0)
    saved = sorted(collections.Counter(described(thing) for thing in gc.garbage).items())
    gc.garbage.clear()
    first_log = sorted(log)
    again = gc.collect()
    dead = sum(ref() is None for ref in watched)
    rescued.clear()
    result = {
        "found": found,
        "log": first_log,
        "saved": saved,
        "again": again,
        "dead": dead,
        "later": gc.collect(),
        # Only now: a full collection also takes atomic dicts out of its sight, which is not freeing.
        "tracked": len(gc.get_objects()),
        "live": len(live),
    }
    if HOW == "snapshot":
        figures = neurogc._native.agent.snapshot_figures()
        assert figures["launched"] == 1 and not figures["failed"], figures
    json.dump(result, sys.stdout)


main()

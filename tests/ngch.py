"""A reader of heap dumps that follows docs/heap-format.md and nothing else: a check of the description and of the agent."""

import struct
import zlib
from dataclasses import dataclass, field

KINDS = [
    "other", "list", "tuple", "dict", "odict", "set", "str", "bytes", "bytearray", "int", "float", "type", "code",
    "function", "generator", "frame", "module", "cell", "weakref", "deque", "array", "ndarray", "method", "future",
    "task", "exception", "traceback", "tensor", "arrow",
]
MASK = (1 << 64) - 1


class Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        data, at, value, shift = self.data, self.at, 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return value
            shift += 7

    def optional(self):
        value = self.varint()
        return value - 1 if value else None

    def take(self, count):
        taken = bytes(self.data[self.at : self.at + count])
        assert len(taken) == count, "the bytes end too early"
        self.at += count
        return taken

    def text(self):
        return self.take(self.varint()).decode()


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


@dataclass
class Type:
    object: int
    kind: str
    flags: int
    basic: int
    item: int
    objects: int
    shape: int
    base: int
    name: str
    members: dict


@dataclass
class Object:
    number: int
    address: int
    type: Type
    tracked: bool
    size: int
    count: int
    references: list = field(default_factory=list)
    value: object = None


@dataclass
class Dump:
    head: dict
    types: list = field(default_factory=list)
    shapes: list = field(default_factory=list)
    threads: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    tasks: list = field(default_factory=list)
    images: list = field(default_factory=list)
    roots: list = field(default_factory=list)
    objects: list = field(default_factory=list)
    foot: dict = None
    blocks: int = 0

    def by_address(self):
        return {it.address: it for it in self.objects}

    def names(self, number):
        """The names of the references of an object, as (label, target)."""
        it = self.objects[number]
        for kind, label, target in it.references:
            if kind == "attribute":
                yield self.objects[self.shapes[it.type.shape][label]].value, target
            elif kind == "shared":
                yield self.objects[self.shapes[label[0]][label[1]]].value, target
            elif kind == "value":
                yield ("[]", self.objects[label].value), target
            elif kind == "index":
                yield ("[]", label), target
            elif kind == "field":
                yield it.type.members.get(label, label), target
            else:
                yield None, target


def read_head(data):
    assert data[:4] == b"NGCH", "no magic number"
    version, length, python, flags, limit, pid, started, taken, objects = struct.unpack_from("<HHIIIIQQQ", data, 4)
    assert (version, length) == (1, 64)
    assert zlib.crc32(data[:60]) == struct.unpack_from("<I", data, 60)[0]
    return {"python": python, "flags": flags, "limit": limit, "pid": pid, "taken": taken, "objects": objects}


def sections(data):
    """Each section's tag, offset and bytes, up to where the file ends."""
    at = 64
    while at + 16 <= len(data):
        tag, crc, length = struct.unpack_from("<4sIQ", data, at)
        body = data[at + 16 : at + 16 + length]
        if len(body) < length:
            return
        assert zlib.crc32(body) == crc, f"checksum of {tag} at {at}"
        yield tag.decode(), at, body
        if tag == b"FOOT":
            return
        at += 16 + length + -length % 8


def read(path):
    """Reads a whole dump, as far as it goes."""
    with open(path, "rb") as file:
        data = memoryview(file.read())
    dump = Dump(read_head(data))
    offsets = []
    for tag, at, body in sections(data):
        if tag == "FOOT":
            dump.foot = read_foot(body)
            assert dump.foot["offsets"] == offsets
            foot, magic = struct.unpack_from("<Q8s", data, len(data) - 16)
            assert (foot, magic) == (at, b"NGCHFOOT")
            continue
        offsets.append(at)
        if tag == "BLCK":
            dump.blocks += 1
            read_block(dump, body)
        else:
            rows = Bytes(body)
            target, row = {
                "TYPE": (dump.types, read_type), "SHAP": (dump.shapes, read_shape), "THRD": (dump.threads, read_thread),
                "FRAM": (dump.frames, read_frame), "TASK": (dump.tasks, read_task), "IMAG": (dump.images, read_image),
                "ROOT": (dump.roots, read_root),
            }[tag]
            target.extend(row(rows) for _ in range(rows.varint()))
            assert rows.at == len(body)
    return dump


def read_type(rows):
    fields = [rows.optional(), KINDS[rows.varint()], rows.varint(), rows.varint(), rows.varint(), rows.varint()]
    fields += [rows.optional(), rows.optional(), rows.text()]
    members = {}
    for _ in range(rows.varint()):
        word, name = rows.varint(), rows.text()
        members.setdefault(word, name)
    return Type(*fields, members)


def read_shape(rows):
    return [rows.optional() for _ in range(rows.varint())]


def read_thread(rows):
    return {"ident": rows.varint(), "native": rows.varint(), "current": bool(rows.varint()), "name": rows.text()}


def read_frame(rows):
    return {
        "thread": rows.varint(), "code": rows.optional(), "function": rows.optional(), "generator": rows.optional(),
        "line": rows.varint(),
    }


def read_task(rows):
    return {
        "object": rows.varint(), "state": rows.varint(), "coroutine": rows.optional(), "awaits": rows.optional(),
        "name": rows.optional(),
    }


def read_image(rows):
    return {"base": rows.varint(), "start": rows.varint(), "length": rows.varint(), "path": rows.text()}


def read_root(rows):
    return {"kind": rows.varint(), "a": rows.varint(), "b": rows.varint(), "object": rows.varint()}


def read_foot(body):
    rows = Bytes(body)
    foot = {name: rows.varint() for name in ("objects", "tracked", "references", "bytes", "pause_ns")}
    foot["passes_ns"] = [rows.varint() for _ in range(rows.varint())]
    at, offsets = 0, []
    for _ in range(rows.varint()):
        at += rows.varint()
        offsets.append(at)
    return {**foot, "offsets": offsets}


def read_block(dump, body):
    objects, first, references, address, size, continues, _ = struct.unpack_from("<IIQQQII", body)
    lengths = struct.unpack_from("<6Q", body, 40)
    at, columns = 88, []
    for length in lengths:
        columns.append(Bytes(body[at : at + length]))
        at += length
    assert at == len(body) and 0 < objects <= 65536
    addresses, types, sizes, counts, runs, values = columns
    found, total = 0, 0
    for number in range(first, first + objects):
        address += addresses.varint() * 8
        kind = types.varint()
        it = Object(number, address, dump.types[kind >> 1], bool(kind & 1), sizes.varint(), counts.varint())
        total += it.size
        if number == first and continues & 1:
            before = dump.objects[-1]
            assert (before.number, before.address, before.type, it.size) == (number, address, it.type, 0)
            it = before
        else:
            assert number == len(dump.objects), "objects are numbered in order"
            dump.objects.append(it)
        before = len(it.references)
        read_runs(runs, number, it.references)
        found += len(it.references) - before
        if it.type.kind == "str":
            it.value = read_text(values)
        elif it.type.kind == "int":
            value = values.varint()
            it.value = unzigzag(value - 1) if value else None
    assert (found, total) == (references, size)
    assert all(column.at == len(column.data) for column in columns)


def read_runs(runs, own, into):
    last = key = own
    while head := runs.varint():
        kind, entries = head & 7, head >> 3
        shape = runs.varint() if kind == 6 else None
        start = runs.varint() if kind == 7 else 0
        for entry in range(entries):
            label = None
            if kind == 5:
                label = runs.varint()
            elif kind == 3:
                key += unzigzag(runs.varint())
                into.append(("key", None, key))
            delta = runs.varint()
            if kind in (2, 4, 6, 7):
                if not delta:
                    continue
                delta -= 1
            last += unzigzag(delta)
            into.append({
                1: ("plain", None, last), 2: ("index", entry, last), 3: ("value", key, last),
                4: ("attribute", entry, last), 5: ("field", label, last), 6: ("shared", (shape, entry), last),
                7: ("index", start + entry, last),
            }[kind])


def read_text(values):
    head = values.varint()
    kept, width = head >> 3, head & 3
    if width == 3:
        return None
    if head & 4:
        values.varint()
        values.take(8)
    raw = values.take(kept << width)
    return raw.decode(("latin-1", "utf-16-le", "utf-32-le")[width], "surrogatepass")

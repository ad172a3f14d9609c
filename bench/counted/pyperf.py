"""Stands in for pyperf, so that a program of pyperformance runs a fixed number of rounds, of which one part is counted.

    python bench/counted/pyperf.py PROGRAM.py ROUNDS [NAME=VALUE]... [-- ARGUMENT]...

`NAME=VALUE` replaces a constant of the program, to make a round shorter. A round runs before the counted ones: it imports
what is imported late, and the interpreter has specialized its code.

`NEUROGC_BENCH_TOOL` starts another memory profiler before the counted part, to compare with. `reftracer` is CPython's hook on
every object that is made or destroyed (3.13 and later), with a function that does next to nothing. `NEUROGC_BENCH_INTERVAL` is the
distance of sampling points, in KiB, that must still be in force at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import importlib
import mmap
import os
import re
import sys
import tempfile
import time

perf_counter = time.perf_counter
ROUNDS = 1
MODULES = {"memray": "memray", "ddtrace": "ddtrace.profiling.collector.memalloc"}


def python_implementation():
    return "cpython"


def _machine_code(code):
    """The address of a function of these bytes, for x86-64."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    # It stays mapped: the view refers to it.
    view = ctypes.c_char.from_buffer(memory)
    _kept.append(view)
    return ctypes.addressof(view)


_kept = []


class Valgrind:
    """Requests to Callgrind: a sequence of instructions that does nothing on a real processor."""

    DUMP, START = (ord("C") << 24 | ord("T") << 16 | number for number in (0, 4))
    CODE = "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3"

    def __init__(self):
        self.ask = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(_machine_code(self.CODE))

    def __call__(self, request):
        words = (ctypes.c_size_t * 6)(request)
        self.ask(ctypes.addressof(words))


def counted(part):
    """Calls a function. Callgrind counts only what happens in there."""
    keep = _other_tool(os.environ.get("NEUROGC_BENCH_TOOL"))
    valgrind = Valgrind()
    began = time.perf_counter()
    valgrind(Valgrind.START)
    part()
    valgrind(Valgrind.DUMP)
    if os.environ.get("NEUROGC_BENCH_CLOCK"):
        print("counted:", time.perf_counter() - began, file=sys.stderr)
    interval = os.environ.get("NEUROGC_BENCH_INTERVAL")
    if interval is not None:
        import json

        from neurogc._native import agent

        found = json.loads(agent.sites_json(None))["sample_bytes"] / 1024
        if found != float(interval):
            sys.stderr.write(f"the distance between samples is {found:g} KiB and not {interval} any more\n")
            sys.stderr.flush()
            os._exit(1)
    # The end of the program is of no interest, and another profiler's takes long.
    sys.stdout.flush()
    sys.stderr.flush()
    del keep
    os._exit(0)


def _other_tool(name):
    if name == "tracemalloc":
        import tracemalloc

        tracemalloc.start()
    elif name == "reftracer":
        # The least that a tracer of objects could do: look whether the address may be that of a sampled block.
        tracer = _machine_code("f7c7 ef010000 31c0 c3")
        ctypes.pythonapi.PyRefTracer_SetTracer(ctypes.c_void_p(tracer), None)
    elif name == "memray":
        import memray

        tracker = memray.Tracker(tempfile.mktemp(suffix=".bin"), trace_python_allocators=True)
        tracker.__enter__()
        return tracker
    elif name == "ddtrace":
        from ddtrace.profiling.collector import memalloc

        collector = memalloc.MemoryCollector()
        collector.start()
        return collector
    return None


class Runner:
    """The part of pyperf's that the programs use."""

    def __init__(self, *_, **__):
        self.argparser = argparse.ArgumentParser()
        self.metadata = {}
        self.args = None

    def parse_args(self, args=None):
        self.args = self.argparser.parse_args(args)
        return self.args

    def bench_time_func(self, name, function, *args, **_):
        if self.args is None:
            self.parse_args()
        function(1, *args)
        counted(lambda: function(ROUNDS, *args))

    def bench_func(self, name, function, *args, **_):
        def rounds(count):
            for _ in range(count):
                function(*args)

        self.bench_time_func(name, rounds)

    def bench_async_func(self, name, function, *args, loop_factory=None, **_):
        self.bench_func(name, lambda: asyncio.run(function(*args)))


def main():
    global ROUNDS
    sys.modules["pyperf"] = sys.modules["__main__"]
    path, rounds, *rest = sys.argv[1:]
    constants, arguments = rest, []
    if "--" in rest:
        at = rest.index("--")
        constants, arguments = rest[:at], rest[at + 1 :]
    ROUNDS = int(rounds)
    with open(path) as file:
        text = file.read()
    for constant in constants:
        name, _, value = constant.partition("=")
        text, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert found == 1, f"{path} has no constant {name}"
    sys.argv = [path, *arguments]
    # Before the folder of the program is on the path: a file there may have the name of a module.
    module = MODULES.get(os.environ.get("NEUROGC_BENCH_TOOL"))
    if module is not None:
        importlib.import_module(module)
    sys.path.insert(0, os.path.dirname(path))
    names = {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__}
    code = compile(text, path, "exec")
    exec(code, names)
    sys.exit("the program counts nothing")


if __name__ == "__main__":
    main()

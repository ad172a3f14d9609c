"""Running programs that take snapshots, for the tests of the snapshot collector."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from observed import APPS, python, run

PRELUDE = """
import gc, os, sys, threading, time, weakref
import neurogc
agent = neurogc._native.agent

class Node:
    pass

def cycle(**more):
    one, other = Node(), Node()
    one.other, other.other = other, one
    one.__dict__.update(more)
    return one

def garbage(count):
    for _ in range(count):
        cycle()

def wait(until=("ready", "failed", "idle"), within=30):
    deadline = time.monotonic() + within
    while True:
        word, more = agent.snapshot_look()
        if word in until:
            return word, more
        assert time.monotonic() < deadline, f"still {word}"
        time.sleep(0.001)

def fly():
    agent.snapshot_launch()
    return wait()

def snapshot():
    # What a snapshot freed. One that was late says nothing but that the machine is busy.
    for _ in range(5):
        found = agent.collect_snapshot()
        if found is not None or set(failed()) != {"late"}:
            break
    assert found is not None, failed()
    return found

def drain(budget_ms=5, whole=True):
    freed = moved = dropped = 0
    # A thread of the agent may be looking at it just now.
    while agent.snapshot_look()[0] in ("ready", "busy"):
        slice = agent.snapshot_reap(budget_ms, whole)
        freed, moved, dropped = freed + slice[0], moved + slice[1], dropped + slice[2]
    return freed, moved, dropped

def failed():
    return agent.snapshot_figures()["failed"]

def walkers():
    # Processes of ours that walk, and zombies.
    found = []
    for name in os.listdir(f"/proc/self/task"):
        try:
            with open(f"/proc/self/task/{name}/children") as children:
                found += [int(pid) for pid in children.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            # A thread that has just ended has none.
            pass
    return found

def shared_mappings():
    with open("/proc/self/maps") as maps:
        return [line for line in maps if "/dev/zero (deleted)" in line]

def nothing_is_left():
    assert walkers() == [], walkers()
    agent.snapshot_look()
    # A thread of the agent may be the one that has looked first: it is about to unmap what it was.
    deadline = time.monotonic() + 2
    while shared_mappings() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shared_mappings() == [], shared_mappings()
    # Full collections of CPython's own come again: the next one is not held off.
    assert gc_pending() >= 0, gc_pending()

def gc_pending():
    import ctypes
    offsets = dict(agent.layout())
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    main = ctypes.c_size_t.from_address(runtime + offsets["runtime.main_interpreter"]).value
    pending = main + offsets["interpreter.gc"] + offsets["gc.long_lived_pending"]
    return ctypes.c_ssize_t.from_address(pending).value

gc.collect()
gc.disable()
"""


def snap(code, *options, prelude=PRELUDE, **keywords):
    """Runs Python code that takes snapshots, and expects nothing on stderr."""
    keywords.setdefault("NEUROGC_POLICY", "observe")
    return python(prelude + code, *options, **keywords)


def app(name, *words, timeout=120, **keywords):
    """Runs a program of the tests under the agent and gives its output."""
    keywords.setdefault("NEUROGC_POLICY", "observe")
    done = run(sys.executable, "-W", "ignore", str(APPS / name), *words, timeout=timeout, **keywords)
    assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def headers():
    """The folder of this interpreter's headers."""
    folder = Path(sysconfig.get_paths()["include"])
    if not folder.is_absolute() or not (folder / "Python.h").exists():
        # An interpreter that was moved after it was built.
        folder = Path(os.path.realpath(sys.executable)).parent.parent / "include" / folder.name
    return folder


def extension(name, folder):
    """Compiles one of the extensions for the tests and gives the folder to import it from."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler: install gcc"
    built = folder / f"{name}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", f"-I{headers()}", "-o", built, APPS / f"{name}.c", "-lpthread"]
    subprocess.run(command, check=True)
    return str(folder)

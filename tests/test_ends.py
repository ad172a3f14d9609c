"""Uninstalling, and the end of the program, while a finalizer of a collection runs: both go as they go without us."""

import contextlib

import pytest
from observed import Running, stock
from snapshots import PRELUDE

pytestmark = [pytest.mark.needs_agent, pytest.mark.race]

# A finalizer that takes its time, and says when it is done, as one that flushes a buffer would.
FLUSHING = """
import sys, threading, time
kept, started = [], threading.Event()
class Slow:
    def __init__(self):
        self.me = self
    def __del__(self):
        if not started.is_set():
            started.set()
            time.sleep(0.7)
            print("flushed", flush=True)
"""
AT_THE_END = FLUSHING + """
Slow()
until = time.monotonic() + 5
while time.monotonic() < until and not started.is_set():
    kept.extend([[]] + [number] for number in range(400))
    time.sleep(0.005)
print("the finalizer has begun:", started.is_set(), flush=True)
sys.exit(7)
"""


def test_the_program_ends_and_the_finalizer_too():
    expected = stock(AT_THE_END, expect=7)
    assert sorted(expected.splitlines()) == ["flushed", "the finalizer has begun: True"]
    with Running(AT_THE_END, policy="auto") as program:
        assert program.ends(7) == expected


@pytest.mark.parametrize("how", ["full", "snapshot"])
def test_the_program_ends_while_another_thread_collects(how):
    code = FLUSHING + f"""
import neurogc
Slow()
threading.Thread(target=neurogc.collect, args=({how!r},)).start()
started.wait(5)
sys.exit(7)
"""
    with Running(code, policy="gap") as program:
        assert program.ends(7) == "flushed\n"


# The finalizer waits for a lock that the program holds until it has uninstalled us and goes to its end.
UNINSTALLING = """
import threading, time, neurogc
lock, kept, ran = threading.RLock(), [], 0
class Resource:
    def __init__(self):
        self.me = self
    def __del__(self):
        global ran
        with lock:
            ran += 1
with lock:
    until = time.monotonic() + 0.7
    while time.monotonic() < until:
        for _ in range(50):
            Resource()
        kept.extend([[]] + [number] for number in range(20))
        time.sleep(0.002)
    neurogc.uninstall()
print(ran > 0)
"""


def test_uninstalling_while_a_finalizer_waits_for_the_program():
    # Side by side, because it depends on who comes first at the end.
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Running(UNINSTALLING, within=15)) for _ in range(4)]
        assert [program.ends() for program in programs] == ["True\n"] * 4


@pytest.mark.parametrize("how", ["young", "full", "snapshot"])
def test_uninstalling_while_another_thread_collects(how):
    code = PRELUDE + FLUSHING + f"""
gc.enable()
Slow()
collecting = threading.Thread(target=neurogc.collect, args=({how!r},))
collecting.start()
started.wait(5)
began = time.monotonic()
neurogc.uninstall()
print("uninstalled", time.monotonic() - began < 5, flush=True)
collecting.join()
# Everything is CPython's own again.
assert gc.get_threshold.__self__ is gc and gc.get_threshold.__module__ == "gc" and not gc.callbacks
gone = weakref.ref(cycle())
gc.collect()
assert gone() is None
neurogc.install(policy="gap")
assert neurogc.status()["conduct"]["acting"]
"""
    with Running(code, policy="gap") as program:
        assert sorted(program.ends().splitlines()) == ["flushed", "uninstalled True"]


def test_the_finalizer_of_the_last_object_runs_as_without_us():
    # The program leaves garbage uncollected. The interpreter collects it at shutdown, and the exit code stays the same.
    code = FLUSHING + "Slow()\nimport gc\ngc.disable()\nsys.exit(3)\n"
    expected = stock(code, expect=3)
    with Running(code, policy="gap") as program:
        assert program.ends(3) == expected == "flushed\n"



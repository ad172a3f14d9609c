"""What is bounded, and what is the program's own: sockets, names, troubles, thresholds, signal masks and mappings."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from observed import Running, answer_to, ask, binary, eventually, neurogc, python, socket_path
from snapshots import PRELUDE, snap

pytestmark = pytest.mark.needs_agent
needs_command = pytest.mark.skipif(not binary(), reason="the command has not been built")

WAITING = "print('ready', flush=True)\ninput()\n"


@pytest.fixture
def idle():
    """A program that does nothing, with its agent at work."""
    with Running(WAITING, policy="gap") as program:
        assert program.line() == "ready"
        eventually(lambda: ask(program.pid), what="the agent")
        yield program
        program.say()
        program.ends()


# The control socket


@needs_command
@pytest.mark.timing
def test_silent_connections_do_not_keep_others_from_an_answer(idle):
    path, silent = str(socket_path(idle.pid)), []

    def connect():
        # Waits where the queue is full, so that there are as many as possible all the time.
        for _ in range(300):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            silent.append(connection)
            try:
                connection.connect(path)
            except OSError:
                return

    connecting = threading.Thread(target=connect)
    connecting.start()
    eventually(lambda: len(silent) > 120, what="many connections")
    try:
        for _ in range(2):
            began = time.monotonic()
            assert neurogc("status", idle.pid, "--json", timeout=10)["pid"] == idle.pid
            assert time.monotonic() - began < 2
    finally:
        connecting.join()
        for connection in silent:
            connection.close()


def resident(pid):
    """The resident memory of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_names_of_policies_are_not_kept(idle):
    def named(number):
        # As long as a question may be.
        return f"neural:/nonexistent/{number}/" + "x" * 3500

    def tried(number):
        # It may be refused because the one before is still under way, or because there is no such file.
        answer_to(idle.pid, {"policy": named(number)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tried, range(20)))
        before, held = resident(idle.pid), ask(idle.pid)["agent"]["rss_bytes"]
        list(pool.map(tried, range(20, 520)))
    status = ask(idle.pid)
    assert resident(idle.pid) - before < 2 << 20
    # Of 1.75 MB in names nothing is there any more. Other parts of the agent may take 0.2 to 0.5 MB meanwhile.
    assert status["agent"]["rss_bytes"] - held < 800_000, status["agent"]
    assert len(status["degraded"]) <= 100, len(status["degraded"])


def test_troubles_are_bounded():
    seen = json.loads(python("""
import json, neurogc
agent = neurogc._native.agent
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
for number in range(300):
    agent.degrade(f"trouble {number}")
first = neurogc.status()["degraded"]
before = resident()
for number in range(300, 10_000):
    agent.degrade(f"trouble {number} " + "x" * 1000)
print(json.dumps([first, neurogc.status()["degraded"], resident() - before]))
"""))
    first, last, grown = seen
    assert "trouble 0" in first and len(first) <= 100 and len(last) <= 100, (len(first), len(last))
    assert grown < 2 << 20, grown


# What is the program's own


def test_the_real_thresholds_are_never_zero_under_every():
    python("""
import gc, time, neurogc
agent = neurogc._native.agent
class Node:
    pass
def real():
    return agent.originals.get("get_threshold", gc.get_threshold)()
shown, seen = gc.get_threshold(), set()
for _ in range(150):
    seen.add(real())
    with neurogc.request():
        for _ in range(50):
            node = Node()
            node.me = node
        seen.add(real())
    time.sleep(0.001)
assert neurogc.status()["gc"]["full"]["count"] >= 2, neurogc.status()["gc"]
assert not any(0 in each[:1] for each in seen), seen
assert gc.get_threshold() == shown and gc.isenabled(), gc.get_threshold()
# Without requests, and without us, CPython still collects.
agent.before_fork()
before = gc.get_stats()[0]["collections"]
for _ in range(400_000):
    node = Node()
    node.me = node
assert gc.get_stats()[0]["collections"] > before
""", NEUROGC_POLICY="every:50")


MAPPED = """
import ctypes, mmap
MB = 1 << 20
def mapped():
    memory = mmap.mmap(-1, 256 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer = (ctypes.c_char * (256 * MB)).from_buffer(memory)
    ctypes.memset(buffer, 7, 256 * MB)
    return memory, ctypes.addressof(buffer)
def flags(address):
    inside = False
    with open("/proc/self/smaps") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                first, last = (int(end, 16) for end in words[0].split("-"))
                inside = first <= address < last
            elif inside and words[0] == "VmFlags:":
                return words[1:]
def snapshots(count):
    for _ in range(count):
        garbage(100)
        assert snapshot() >= 200
live = [[number] for number in range(50_000)]
memory, address = mapped()
inner = address + 100 * MB
"""


@pytest.mark.parametrize("known", [0, 3], ids=["from the start", "after some snapshots"])
def test_what_the_program_keeps_out_of_its_children_stays_out(known):
    snap(MAPPED + f"""
snapshots({known})
memory.madvise(mmap.MADV_DONTFORK)
assert "dc" in flags(inner)
snapshots(3)
assert "dc" in flags(inner), flags(inner)
memory.madvise(mmap.MADV_DOFORK)
snapshots(2)
assert "dc" not in flags(inner), flags(inner)
""")


# A finalizer starts a process, and its signal mask must be the program's, which is empty.
STARTING = """
import gc, subprocess, sys, threading, time
kept, masks, told = [], [], []
class Starting:
    def __init__(self):
        self.me = self
    def __del__(self):
        if not masks:
            masks.append(None)
            seen = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
            masks[0] = [line.split()[1] for line in seen.splitlines() if line.startswith("SigBlk")][0]
"""


def test_a_process_that_a_finalizer_starts_has_no_signals_blocked():
    code = STARTING + """
until = time.monotonic() + 10
while not (masks and masks[0]) and time.monotonic() < until:
    Starting()
    kept.extend([[]] + [number] for number in range(100))
    time.sleep(0.005)
print(int(masks[0], 16))
"""
    with Running(code, policy="auto") as program:
        assert program.ends() == "0\n"


@needs_command
def test_nor_where_the_collection_was_asked_for_from_outside():
    code = STARTING + """
gc.disable()
Starting()
print("ready", flush=True)
while not (masks and masks[0]):
    time.sleep(0.002)
print(int(masks[0], 16))
"""
    with Running(code, policy="observe") as program:
        assert program.line() == "ready"
        eventually(lambda: ask(program.pid), what="the agent")
        # The answer may be lost: the agent's threads end for the fork.
        neurogc("collect", program.pid, "--how", "full", timeout=10, expect=None)
        assert program.ends() == "0\n"


# Why a snapshot failed

FAILED = PRELUDE + """
import resource, signal
def failures():
    told = neurogc.status()["gc"]["snapshot"]
    assert sum(each["count"] for each in told["failures"]) == told["failed"], told
    return {each["reason"]: each["count"] for each in told["failures"]}
assert failures() == {}
"""


def test_a_snapshot_that_was_refused_says_why():
    snap("""
garbage(100)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), resource.RLIM_INFINITY))
for _ in range(2):
    neurogc.collect("snapshot")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
[(reason, count)] = failures().items()
assert "memory" in reason and count == 2, failures()
""", prelude=FAILED)


def test_a_snapshot_that_came_to_nothing_says_why():
    snap("""
live = [[number] for number in range(600_000)]
for turn in range(2):
    agent.snapshot_launch()
    [pid] = walkers()
    os.kill(pid, signal.SIGKILL)
    assert wait()[0] == "failed"
    gc.collect(0)
[(reason, count)] = failures().items()
assert "signal 9" in reason and count == 2, failures()
agent.snapshot_launch()
agent.snapshot_cancel()
assert wait()[0] == "failed"
gc.collect(0)
assert len(failures()) == 2, failures()
""", prelude=FAILED)

"""A fork in the middle of a collection of the agent's: the child has a collector that works, and all that was set."""

import json
import threading

import pytest
from observed import Running, ask, binary, eventually, neurogc
from snapshots import PRELUDE

pytestmark = [pytest.mark.needs_agent, pytest.mark.race]
needs_command = pytest.mark.skipif(not binary(), reason="the command has not been built")

# `wrong()` says what is wrong with the collector of the process that calls it. `Slow` holds the first collection that
# finds one up, until `go` is set.
SETTLED = PRELUDE + """
import json, multiprocessing, signal, subprocess
gc.enable()
expected = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
started, go = threading.Event(), threading.Event()

class Slow:
    def __init__(self):
        self.me = self
    def __del__(self):
        if not started.is_set():
            started.set()
            go.wait(8)

def collections():
    return sum(each["collections"] for each in gc.get_stats())

def collects():
    gone = weakref.ref(cycle())
    gc.collect()
    return gone() is None

def wrong():
    found = []
    seen = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
    if seen != expected:
        found.append(f"thresholds, enabled and frozen were {expected} and are {seen}")
    if not collects():
        found.append("gc.collect() does not find a fresh cycle")
    before = collections()
    garbage(30_000)
    if collections() == before:
        found.append("nothing is collected automatically")
    # New threads may get the stacks of those that the child does not have.
    results = []
    threads = [threading.Thread(target=lambda: results.append(garbage(2000) or gc.collect(1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) != 3 or not collects():
        found.append("threads do not collect")
    return found

def ended(pid, within=8):
    # Waits for a child, and tells when it hung or failed.
    until = time.monotonic() + within
    while time.monotonic() < until:
        seen, status = os.waitpid(pid, os.WNOHANG)
        if seen:
            if status:
                told("ended with", os.waitstatus_to_exitcode(status))
            return
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    told("hung")

def told(*what):
    with open(sys.argv[1], "a") as file:
        print(json.dumps(what), file=file)
"""

# Another thread than the one that collects forks in each way, one after the other.
FORKING = SETTLED + """
def child(way):
    try:
        told(way, wrong())
    except BaseException as error:
        told(way, [repr(error)])

def forks():
    started.wait(8)
    try:
        pid = os.fork()
        if pid == 0:
            child("os.fork")
            os._exit(0)
        ended(pid)
        process = multiprocessing.get_context("fork").Process(target=child, args=("multiprocessing",))
        process.start()
        process.join(8)
        told("multiprocessing ends", process.exitcode)
        process.kill()
        code = "import gc; a = []; a.append(a); del a; raise SystemExit(not gc.collect())"
        told("subprocess", subprocess.run([sys.executable, "-c", code], timeout=8).returncode)
        pid = os.posix_spawn("/bin/true", ["true"], os.environ)
        told("posix_spawn", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    except BaseException as error:
        told("forks", [repr(error)])
    finally:
        go.set()

forking = threading.Thread(target=forks)
forking.start()
"""
EXPECTED = [
    ["os.fork", []],
    ["multiprocessing", []],
    ["multiprocessing ends", 0],
    ["subprocess", 0],
    ["posix_spawn", 0],
]

COLLECTING = {
    "the policy": """
kept = []
while not started.is_set():
    Slow()
    kept.extend([[]] + [number] for number in range(40))
    time.sleep(0.003)
""",
    "young": "Slow()\nneurogc.collect('young')\n",
    "full": "Slow()\nneurogc.collect('full')\n",
    "a slice": """
garbage(2000)
slow = [Slow()]
gc.collect()
del slow
neurogc.collect("snapshot")
""",
    "a slice asked for from outside": """
gc.collect()
Slow()
print("ready", flush=True)
while not started.is_set():
    time.sleep(0.002)
""",
}


@pytest.mark.parametrize("how", COLLECTING)
def test_a_fork_while_a_finalizer_holds_a_collection_up(how, tmp_path):
    outside = "outside" in how
    if outside and not binary():
        pytest.skip("the command has not been built")
    report = tmp_path / "report"
    code = FORKING + COLLECTING[how] + """
forking.join()
told("the parent", wrong())
"""
    # Where it is asked for from outside, no policy must come first.
    with Running(code, report, policy="observe" if outside else "gap", within=20) as program:
        if outside:
            assert program.line() == "ready"
            eventually(lambda: ask(program.pid), what="the agent")
            # Whether it gets its answer is not the question here: the agent's threads end for each fork.
            neurogc("collect", program.pid, "--how", "snapshot", timeout=15, expect=None)
        program.ends()
    seen = [json.loads(line) for line in report.read_text().splitlines()]
    assert seen == [*EXPECTED, ["the parent", []]], seen


@pytest.mark.parametrize("setting", ["gc.set_threshold(900, 7, 8)", "gc.disable()", "gc.freeze()"])
def test_a_child_has_what_the_program_has_set(setting, tmp_path):
    # What it looks for in a collector is another thing here: the program may have switched it off.
    report = tmp_path / "report"
    code = SETTLED + f"""
{setting}
def forks():
    started.wait(8)
    expected = gc.get_threshold(), gc.isenabled()
    frozen = gc.get_freeze_count()
    pid = os.fork()
    if pid == 0:
        # The child frees a few frozen objects: those of the threads that it does not have.
        told(expected == (gc.get_threshold(), gc.isenabled()), abs(gc.get_freeze_count() - frozen) < 60, collects())
        os._exit(0)
    ended(pid)
    go.set()
forking = threading.Thread(target=forks)
forking.start()
Slow()
neurogc.collect("full")
forking.join()
"""
    with Running(code, report, policy="gap", within=20) as program:
        program.ends()
    assert [json.loads(line) for line in report.read_text().splitlines()] == [[True, True, True]]


@pytest.mark.parametrize("how", ["young", "full", "a slice"])
def test_a_native_fork_while_a_finalizer_holds_a_collection_up(how, tmp_path):
    report = tmp_path / "report"
    code = SETTLED + """
import ctypes
from neurogc import _agent as agent
fork = ctypes.PyDLL(None).fork  # Keeps the GIL, and no hook of Python's runs.
def forks():
    started.wait(8)
    pid = fork()
    if pid == 0:
        # What an event loop or a server calls before it waits.
        agent.passing()
        before = collections()
        garbage(30_000)
        told(collections() > before, collects(), gc.get_threshold() == expected[0])
        os._exit(0)
    ended(pid)
    go.set()
forking = threading.Thread(target=forks)
forking.start()
""" + COLLECTING[how] + """
forking.join()
told("the parent", wrong())
"""
    with Running(code, report, policy="gap", within=20) as program:
        program.ends()
    seen = [json.loads(line) for line in report.read_text().splitlines()]
    assert seen == [[True, True, True], ["the parent", []]], seen


@needs_command
def test_a_native_fork_while_snapshots_are_asked_for(tmp_path):
    report = tmp_path / "report"
    code = SETTLED + """
import ctypes
fork = ctypes.PyDLL(None).fork  # Keeps the GIL, and no hook of Python's runs.
live = [[number] for number in range(100_000)]
print("ready", flush=True)
for number in range(20):
    # Some of them while a snapshot is out, others between two.
    until = time.monotonic() + 0.5
    while number % 2 and not walkers() and time.monotonic() < until:
        time.sleep(0.0005)
    garbage(100)
    pid = fork()
    if pid == 0:
        gc.collect()
        os._exit(0)
    ended(pid, within=4)
    time.sleep(0.005)
told("done")
"""
    with Running(code, report, policy="gap", within=20) as program:
        assert program.line() == "ready"
        eventually(lambda: ask(program.pid), what="the agent")
        over = threading.Event()

        def asking():
            while not over.is_set():
                # A command may come after the program has ended, or during a snapshot of the policy: both fail.
                neurogc("collect", program.pid, "--how", "snapshot", timeout=30, expect=None)
                over.wait(0.002)

        thread = threading.Thread(target=asking)
        thread.start()
        try:
            program.ends()
        finally:
            over.set()
            thread.join()
    assert [json.loads(line) for line in report.read_text().splitlines()] == [["done"]]

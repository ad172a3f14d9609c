"""`neurogc attach` and `neurogc detach`: processes that run already go on with the same results."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attached import RUNS, WAITS, Target
from observed import APPS, HOME, binary, eventually, neurogc, socket_path

pytestmark = [pytest.mark.needs_agent, pytest.mark.skipif(not binary(), reason="the command is not built")]

@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_the_agent_goes_in_and_out_twice_and_the_program_does_not_notice(code, tmp_path):
    with Target(code, tmp_path) as target:
        for _ in range(2):
            attached = neurogc("attach", target.pid, "--json")
            assert attached["attached"] and not attached["left_page"], attached
            status = neurogc("status", target.pid, "--json")
            assert (status["pid"], status["policy"]) == (target.pid, "observe")
            detached = neurogc("detach", target.pid, "--json")
            assert detached["detached"] and not detached["left_page"], detached
            assert not socket_path(target.pid).exists()
        target.ends()


def test_a_process_with_an_agent_gets_another_policy_only(tmp_path):
    with Target(RUNS, tmp_path) as target:
        neurogc("attach", target.pid)
        assert "from observe to gap" in neurogc("attach", target.pid, "--policy", "gap")
        neurogc("detach", target.pid)
        target.ends()


def test_a_program_that_objects_is_left_alone(tmp_path):
    with Target(WAITS, tmp_path, PYTHON_DISABLE_REMOTE_DEBUG="1") as target:
        assert "does not want to be attached to" in neurogc("attach", target.pid, expect=1)
        target.ends()
    with Target(WAITS, tmp_path, "-X", "disable-remote-debug") as target:
        assert "does not want to be attached to" in neurogc("attach", target.pid, expect=1)


def test_a_stopped_process_and_one_without_python_are_refused(tmp_path):
    with Target(WAITS, tmp_path) as target:
        os.kill(target.pid, signal.SIGSTOP)
        eventually(lambda: "\nState:\tT" in open(f"/proc/{target.pid}/status").read())
        assert "kill -CONT" in neurogc("attach", target.pid, expect=1)
        os.kill(target.pid, signal.SIGCONT)
        target.ends()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            assert "no CPython" in neurogc("attach", sleeper.pid, expect=1)
        finally:
            sleeper.kill()


IMPORTS = """
import os, sys, threading, types
class Slow:
    def find_spec(self, name, path, target=None):
        if name == 'slow':
            return __import__('importlib.util').util.spec_from_loader(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        entered.set()
        while not os.path.exists(sys.argv[1]):
            never.wait(0.01)
entered, never = threading.Event(), threading.Event()
sys.meta_path.insert(0, Slow())
other = threading.Thread(target=__import__, args=('slow',))
other.start()
entered.wait()
print('ready', flush=True)
import slow
other.join()
print('OK')
"""


def test_an_import_that_waits_for_another_thread_ends_as_it_would(tmp_path):
    with Target(IMPORTS, tmp_path) as target:
        eventually(lambda: target.status["State"].startswith("S"))
        assert "takes the lock of a module" in neurogc("attach", target.pid, expect=1)
        target.ends()


# The kinds of tests/apps/attach_targets.py beyond those above that differ for `attach`: how the main thread waits, what it is
# in the middle of, and what runs beside it.
KINDS = ["asyncio_tick", "c_hash_nogil", "forks_check", "gc_heavy", "imports", "itimer", "lock", "malloc_heavy", "threads8", "vforks"]


@pytest.mark.race
@pytest.mark.parametrize("kind", KINDS)
def test_programs_of_many_kinds_keep_their_results(kind, tmp_path):
    code = f"import sys; sys.argv[1:1] = [{kind!r}]; exec(compile(open({str(APPS / 'attach_targets.py')!r}).read(), 'targets', 'exec'))"
    with Target(code, tmp_path, "-W", "ignore") as target:
        for _ in range(2):
            attached = neurogc("attach", target.pid, "--json", "--timeout", "30")
            assert attached["attached"] and attached["unreachable"] is None, attached
            assert neurogc("status", target.pid, "--json")["pid"] == target.pid
            assert neurogc("detach", target.pid, "--json", "--timeout", "30")["detached"]
        if kind == "lock":
            os.kill(target.pid, signal.SIGTERM)
        target.ends()


@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_nothing_stays_traced_or_mapped_after_many_times(code, tmp_path):
    with Target(code, tmp_path) as target:
        for turn in range(8):
            neurogc("attach", target.pid)
            neurogc("detach", target.pid)
            if turn == 2:
                before = target.mappings
        # The program itself may get an arena or a part of the heap meanwhile.
        assert target.mappings <= before + 4
        # The last thing that the main thread does for the command is to give the page back, for which it is not waited.
        eventually(lambda: target.status["TracerPid"] == "0" and int(target.status["SigBlk"], 16) == 0)
        target.ends()


@pytest.mark.race
@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_a_command_that_is_killed_in_the_middle_harms_nothing(code, tmp_path):
    with Target(code, tmp_path) as target:
        for turn in range(12):
            with subprocess.Popen([binary(), "attach", str(target.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
                time.sleep(turn / 1000)
                command.kill()
            eventually(lambda: target.status["TracerPid"] == "0")
            neurogc("detach", target.pid, expect=None)
        assert neurogc("attach", target.pid, "--json")["policy"] == "observe"
        target.ends()


# Another thread holds the GIL in native code for a while, so that the main thread has to wait for it in the frame. Signals
# are for the main thread.
HOLDS_THE_GIL = """
import re, signal, sys, threading
class Over(BaseException): pass
def end(*_): raise Over
signal.signal(signal.SIGTERM, end)
pattern = re.compile(r"(a|a)*b")
def hold():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    sys.stdin.readline()
    print("holds", flush=True)
    pattern.match("a" * 23)
lock = threading.Lock()
lock.acquire()
threading.Thread(target=hold).start()
print("ready", flush=True)
try:
    lock.acquire()
except Over:
    print("OK")
"""


def test_a_signal_that_comes_meanwhile_still_ends_a_wait(tmp_path):
    with Target(HOLDS_THE_GIL, tmp_path) as target:
        target.process.stdin.write("\n")
        target.process.stdin.flush()
        assert target.process.stdout.readline() == "holds\n"
        with subprocess.Popen([binary(), "attach", str(target.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            # The main thread is in the frame: it blocks signals.
            eventually(lambda: int(target.status["SigBlk"], 16) != 0)
            os.kill(target.pid, signal.SIGTERM)
            target.ends()


@pytest.mark.race
def test_a_process_that_starts_or_ends_meanwhile_ends_as_it_would(tmp_path):
    chance = random.Random(7)
    for _ in range(12):
        code = f"import time; time.sleep({chance.random() * 0.02}); print('OK')"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(chance.random() * 0.05)
            told = neurogc("attach", process.pid, expect=None)
            out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err) == (0, "OK\n", ""), told


BECOMES_ANOTHER = """
import os, sys
if not os.path.exists(sys.argv[1]):
    if len(sys.argv) == 2:
        print("ready", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:4], "again"])
print("OK")
"""


@pytest.mark.race
def test_a_process_that_executes_another_program_goes_on(tmp_path):
    with Target(BECOMES_ANOTHER, tmp_path) as target:
        for _ in range(15):
            neurogc("attach", target.pid, expect=None)
        target.ends()


COUNTS_CHILDREN = """
import os, sys
print("ready", flush=True)
wrong = 0
while not os.path.exists(sys.argv[1]):
    child = os.fork()
    if child == 0:
        # What was meant for the parent has not run here: there is an agent only if the parent has one.
        os._exit(0)
    wrong += os.waitpid(child, 0)[1] != 0
print("OK" if not wrong else wrong)
"""


@pytest.mark.race
def test_a_process_that_forks_all_the_time_is_attached_to_and_its_children_are_not_harmed(tmp_path):
    with Target(COUNTS_CHILDREN, tmp_path, "-W", "ignore") as target:
        for _ in range(3):
            assert neurogc("attach", target.pid, "--json")["unreachable"] is None
            assert neurogc("status", target.pid, "--json")["pid"] == target.pid
            neurogc("detach", target.pid)
        target.ends()


# Nearly all of its work is in finalizers, where CPython runs what is pending. An agent that measures has a callback of its
# own in the list, so the list's length says whether one came or went during a finalizer.
COLLECTS = """
import gc, os, sys
phases = []
inside = 0
class Last:
    def __init__(self):
        self.me = self
    def __del__(self):
        global inside
        before = len(gc.callbacks)
        for _ in range(3000):
            pass
        inside += len(gc.callbacks) != before
gc.callbacks.append(lambda phase, info: phases.append(phase))
print("ready", flush=True)
wrong = 0
while not os.path.exists(sys.argv[1]):
    for _ in range(30):
        Last()
    gc.collect()
    wrong += phases != ["start", "stop"] * (len(phases) // 2)
    phases.clear()
print("OK" if not wrong and inside else (wrong, inside))
"""


@pytest.mark.race
def test_what_runs_inside_a_collection_leaves_the_callbacks_of_the_program_in_turn(tmp_path):
    with Target(COLLECTS, tmp_path) as target:
        for _ in range(6):
            neurogc("attach", target.pid)
            neurogc("detach", target.pid)
        target.ends()


@pytest.mark.parametrize("how", ["young", "full", "snapshot"])
def test_a_program_that_only_waits_collects_soon(how, tmp_path):
    code = "import gc; gc.disable(); kept = [[i] for i in range(60_000)]; a = []; a.append(a); del a\n" + WAITS
    with Target(code, tmp_path) as target:
        neurogc("attach", target.pid)
        began = time.monotonic()
        collected = neurogc("collect", target.pid, "--how", how, "--json")
        assert collected["how"] == how and collected["found"] >= 1, collected
        assert time.monotonic() - began < 10
        target.ends()


def test_a_program_that_only_waits_is_dumped(tmp_path):
    with Target(WAITS, tmp_path) as target:
        neurogc("attach", target.pid)
        dumped = neurogc("heap", "dump", target.pid, "-o", tmp_path / "it.ngch", "--json")
        assert dumped["objects"] > 1000 and dumped["flight_ms"] > 0, dumped
        target.ends()


def _may_unshare():
    command = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


CONTAINER = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.skipif(not _may_unshare(), reason="this machine allows no namespaces")
@pytest.mark.parametrize("sees_package", [True, False], ids=["sees the package", "sees another file system"])
def test_a_process_in_a_container_is_attached_to_and_asked_from_outside(sees_package, tmp_path):
    if not sees_package and Path(sys.prefix).is_relative_to("/tmp"):
        pytest.skip("the interpreter itself lies in a folder that the test hides")
    hide = "" if sees_package else f"mount -t tmpfs none {HOME}; mount -t tmpfs none /tmp;"
    script = f'{hide} exec "$0" "$@"'
    with Target(WAITS, tmp_path, before=[*CONTAINER, "sh", "-c", script]) as container:
        [inside] = open(f"/proc/{container.pid}/task/{container.pid}/children").read().split()
        attached = neurogc("attach", inside, "--json")
        assert attached["unreachable"] is None, attached
        assert attached["package"].startswith("/tmp/neurogc-attach-") is not sees_package
        assert neurogc("status", inside, "--json")["pid"] == 1
        assert neurogc("collect", inside, "--how", "full", "--json")["how"] == "full"
        assert neurogc("heap", "dump", inside, "-o", tmp_path / "it.ngch", "--json")["objects"] > 1000
        assert neurogc("detach", inside, "--json")["detached"]
        container.ends()


NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + WAITS


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_process_that_is_not_dumpable_is_attached_to_by_root(tmp_path):
    with Target(NOT_DUMPABLE, tmp_path) as target:
        neurogc("attach", target.pid)
        assert neurogc("status", target.pid, "--json")["pid"] == target.pid
        target.ends()


def test_a_mask_and_a_fault_handler_of_the_program_stay(tmp_path):
    code = "import faulthandler, signal; faulthandler.enable(); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n" + WAITS
    with Target(code, tmp_path) as target:
        before = target.status["SigBlk"]
        neurogc("attach", target.pid)
        neurogc("detach", target.pid)
        eventually(lambda: target.status["SigBlk"] == before)
        target.ends()

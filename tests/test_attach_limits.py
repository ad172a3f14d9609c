"""`neurogc attach` where something is in its way: another main thread, small stacks, full queues, filters, other tracers and users."""

import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from attached import RUNS, WAITS, Target
from observed import APPS, HOME, binary, environment, eventually, neurogc

pytestmark = [pytest.mark.needs_agent, pytest.mark.skipif(not binary(), reason="the command is not built")]


def _compiled(source, folder, *options):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = folder / source.removesuffix(".c")
    subprocess.run([compiler, *options, "-o", made, APPS / source, "-pthread", "-ldl"], check=True)
    return made


@pytest.mark.parametrize("first_thread", ["waits", "works"])
@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_python_in_a_second_thread_is_attached_to_in_that_thread(code, first_thread, tmp_path):
    library = _compiled("second_thread.c", tmp_path, "-shared", "-fPIC")
    works = {"SECOND_THREAD_WORKS": "1"} if first_thread == "works" else {}
    with Target(code, tmp_path, LD_PRELOAD=library, **works) as target:
        for _ in range(2):
            attached = neurogc("attach", target.pid, "--json")
            assert attached["attached"] and attached["unreachable"] is None and not attached["left_page"], attached
            assert neurogc("status", target.pid, "--json")["pid"] == target.pid
            assert neurogc("detach", target.pid, "--json")["detached"]
        # No thread was stopped for good, and no mask was changed.
        eventually(lambda: target.status["TracerPid"] == "0" and int(target.status["SigBlk"], 16) == 0)
        target.ends()


def _with_stack(kib):
    return ["sh", "-c", f'ulimit -s {kib}; exec "$@"', "sh"]


@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_half_a_mebibyte_of_stack_is_enough(code, tmp_path):
    with Target(code, tmp_path, before=_with_stack(512)) as target:
        assert neurogc("attach", target.pid, "--json")["attached"]
        assert neurogc("detach", target.pid, "--json")["detached"]
        target.ends()


@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_a_stack_that_is_too_small_for_the_agent_is_refused(code, tmp_path):
    with Target(code, tmp_path, before=_with_stack(200)) as target:
        assert "the limit is 200 KiB" in neurogc("attach", target.pid, expect=1)
        target.ends()


TELLS = """
import gc, os, sys
gc.set_threshold(321, 7, 5)
gc.callbacks.append(lambda phase, info: None)
print("ready", flush=True)
kept = []
for line in iter(sys.stdin.readline, ""):
    if line == "end\\n":
        break
    # Work for the policy, before it is asked.
    for _ in range(5000):
        a = []; a.append(a)
        kept.append([])
    descriptors = sorted(os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}"))
    print((gc.get_threshold(), gc.isenabled(), gc.get_debug(), gc.get_freeze_count(), len(gc.callbacks), descriptors), flush=True)
print("OK")
"""


def test_after_a_detach_everything_is_as_it_was_before_a_policy_acted(tmp_path):
    with Target(TELLS, tmp_path) as target:

        def told():
            target.process.stdin.write("tell\n")
            target.process.stdin.flush()
            return target.process.stdout.readline()

        before = told()
        assert before.startswith("((321, 7, 5), True, 0, "), before
        for _ in range(2):
            assert neurogc("attach", target.pid, "--policy", "gap", "--json")["policy"] == "gap"
            assert told() != before
            neurogc("detach", target.pid)
            # The thread that closes the last socket ends by itself.
            eventually(lambda: told() == before)
        target.process.stdin.write("end\n")
        target.ends()


# Its main thread is in native code without the GIL when a second thread fills the queue of pending calls. It comes back from
# there after the next line.
FILLS = """
import ctypes, sys, threading
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
add = ctypes.pythonapi.Py_AddPendingCall
add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
address = ctypes.cast(call, ctypes.c_void_p)
spin = ctypes.CDLL(LIBRARY).spin
until = ctypes.c_int(0)
def fill():
    go.acquire()
    while add(address, None) == 0:
        pass
    print("full", flush=True)
    sys.stdin.readline()
    until.value = 1
go = threading.Lock()
go.acquire()
print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=fill).start()
# From here on the main thread gives the GIL away in the native code only.
sys.setswitchinterval(1000)
go.release()
spin(ctypes.byref(until))
sys.setswitchinterval(0.005)
print("back", flush=True)
print("OK" if sys.stdin.readline() == "\\n" else "no line")
"""


def _filling(tmp_path):
    library = _compiled("spins.c", tmp_path, "-shared", "-fPIC", "-O1")
    return Target(FILLS.replace("LIBRARY", repr(str(library))), tmp_path)


def _tell(target, answer):
    target.process.stdin.write("\n")
    target.process.stdin.flush()
    assert target.process.stdout.readline() == answer


def test_a_full_queue_is_waited_for(tmp_path):
    with _filling(tmp_path) as target:
        _tell(target, "full\n")
        words = [binary(), "attach", str(target.pid), "--json", "--timeout", "30"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
            # The page is there with which it tries to queue its call. A request by PEP 768 needs none.
            eventually(lambda: sys.version_info >= (3, 14) or "rwxp" in open(f"/proc/{target.pid}/maps").read())
            _tell(target, "back\n")
            attached = json.loads(command.communicate(timeout=60)[0])
        assert attached["attached"] and not attached["left_page"], attached
        target.ends()


def test_nothing_runs_later_where_the_queue_stayed_full(tmp_path):
    with _filling(tmp_path) as target:
        _tell(target, "full\n")
        assert "nothing will run later" in neurogc("attach", target.pid, "--timeout", "1", expect=1)
        # What is pending runs on the way to the next line.
        _tell(target, "back\n")
        assert "no agent" in neurogc("detach", target.pid, expect=1)
        target.ends()


# It holds the lock on the queue most of the time, up to 3.12: a thread that is stopped there must be put back.
QUEUES = """
import ctypes, os, sys
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
add = ctypes.pythonapi.Py_AddPendingCall
add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
address = ctypes.cast(call, ctypes.c_void_p)
print("ready", flush=True)
wrong = 0
while not os.path.exists(sys.argv[1]):
    for _ in range(2000):
        wrong += add(address, None) not in (0, -1)
print("OK" if not wrong else wrong)
"""


@pytest.mark.race
def test_a_program_that_queues_calls_all_the_time_goes_on(tmp_path):
    with Target(QUEUES, tmp_path) as target:
        for _ in range(6):
            assert neurogc("attach", target.pid, "--json", "--timeout", "30")["attached"]
            assert neurogc("detach", target.pid, "--json", "--timeout", "30")["detached"]
        target.ends()


# A filter of system calls: `mmap` with PROT_EXEC fails with EPERM, all others pass.
FILTERS = """
import ctypes, struct
def step(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
load, equal, bits, answer = 0x20, 0x15, 0x45, 0x06
program = b"".join([
    step(load, 0, 0, 0), step(equal, 0, 3, 9),
    step(load, 0, 0, 32), step(bits, 0, 1, 4),
    step(answer, 0, 0, 0x00050001), step(answer, 0, 0, 0x7fff0000),
])
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0
assert prctl(22, 2, ctypes.byref(Filter(6, program)), 0, 0) == 0, ctypes.get_errno()
"""


@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_a_filter_against_code_in_memory_is_named(code, tmp_path):
    with Target(FILTERS + code, tmp_path) as target:
        told = neurogc("attach", target.pid, expect=1)
        # A request by PEP 768 needs no page, so it comes as far as the library of the agent.
        assert "a seccomp filter forbids it" in told or ("failed to map segment" in told and sys.version_info >= (3, 14)), told
        target.ends()


def test_a_process_that_is_traced_is_left_to_its_tracer(tmp_path):
    seize, interrupt, detach = 0x4206, 0x4207, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with Target(WAITS, tmp_path) as target:
        if ptrace(seize, target.pid, None, None) != 0:
            pytest.skip("this machine allows no tracing")
        told = neurogc("attach", target.pid, expect=1)
        assert f"is being traced by process {os.getpid()} (" in told, told
        ptrace(interrupt, target.pid, None, None)
        os.waitpid(target.pid, 0x40000000)
        ptrace(detach, target.pid, None, None)
        assert neurogc("attach", target.pid, "--json")["attached"]
        target.ends()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_a_process_of_another_user_is_refused_with_what_to_do(tmp_path):
    other = {"user": 65534, "group": 65534, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="neurogc-as-other-") as folder, Target(WAITS, tmp_path) as target:
        os.chmod(folder, 0o755)
        copy = shutil.copy(binary(), folder)
        os.chmod(copy, os.stat(copy).st_mode | stat.S_IRWXG | stat.S_IRWXO)
        if subprocess.run(["cat", HOME / "__init__.py"], capture_output=True, cwd="/", **other).returncode != 0:
            pytest.skip("other users cannot read the package")
        env = environment(HOME=folder, NEUROGC_HOME=HOME)
        done = subprocess.run([copy, "attach", str(target.pid)], env=env, capture_output=True, text=True, cwd="/", timeout=30, **other)
        assert done.returncode == 1 and f"sudo neurogc attach {target.pid}" in done.stderr, done
        target.ends()


def test_a_free_threaded_python_is_refused(tmp_path):
    program = _compiled("looks_like_python.c", tmp_path, "-rdynamic")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert "free-threaded" in neurogc("attach", process.pid, expect=1)
        process.communicate("x", timeout=10)
        assert process.returncode == 0


# What a detach does when it comes while the finder before the last one is asked.
IMPORTS = """
import sys, neurogc
neurogc.install(policy="observe")
from neurogc import _imports
class BeforeTheLast:
    @staticmethod
    def find_spec(name, path=None, target=None):
        _imports.unwatch()
sys.meta_path.insert(len(sys.meta_path) - 1, BeforeTheLast)
import colorsys
print("OK")
"""


def test_a_detach_in_the_middle_of_an_import_lets_it_find_its_module():
    done = subprocess.run([sys.executable, "-c", IMPORTS], env=environment(PYTHONPATH=HOME.parent), capture_output=True, text=True)
    assert done.stdout == "OK\n", done.stderr


def test_a_process_that_is_only_a_zombie_has_ended(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.DEVNULL) as process:
        eventually(lambda: open(f"/proc/{process.pid}/status").read().partition("State:\t")[2][:1] == "Z")
        assert "has ended" in neurogc("attach", process.pid, expect=1)
        process.send_signal(signal.SIGTERM)

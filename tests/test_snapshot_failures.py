"""A snapshot that fails does no harm: it is counted, nothing is left of it, and a plain collection takes its place."""

import pytest
from snapshots import extension, snap

pytestmark = pytest.mark.needs_agent

# What must hold after any failure: the program goes on, and the next snapshot is as good as any.
AFTERWARDS = """
gc.collect(0)
nothing_is_left()
"""
AND_THE_NEXT = AFTERWARDS + """
gc.collect()
garbage(300)
assert neurogc.collect("snapshot") >= 600, failed()
"""

# A heap that takes a while to walk, so that a flight can be caught.
LARGE = """
live = [[number] for number in range(600_000)]
garbage(1000)
"""

# Refuses system calls with an error: {number: (error, bits that must not be set in the first argument)}.
SECCOMP = """
import ctypes, errno, platform, struct

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLOSE_RANGE = 436
CLONE_VM = 0x100

def refuse(rules):
    libc = ctypes.CDLL(None, use_errno=True)
    program = [(0x20, 0, 0, 0)]  # load the number
    for number, (error, but_not) in rules.items():
        program += [
            (0x15, 0, 3, number),
            (0x20, 0, 0, 16),  # load the first argument
            (0x45, 1, 0, but_not),
            (0x06, 0, 0, 0x00050000 | error),
            (0x20, 0, 0, 0),
        ]
    program.append((0x06, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code)
    whole = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, whole, 0, 0) == 0, os.strerror(ctypes.get_errno())
"""


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory):
    """The folder of an extension whose type misbehaves in the clone."""
    return extension("misbehaving", tmp_path_factory.mktemp("misbehaving"))


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [(1, "killed", "signal 11"), (3, "killed", "signal 6")],
    ids=["crashes", "aborts"],
)
def test_a_type_that_ends_the_clone(misbehaving, how, kind, reason):
    snap(f"""
sys.path.insert(0, {misbehaving!r})
import faulthandler, misbehaving
# A handler of the program must not run in the clone.
faulthandler.enable()
bad = misbehaving.Misbehaving({how}, [])
garbage(100)
word, why = fly()
assert word == "failed" and {reason!r} in why, (word, why)
assert failed() == {{{kind!r}: 1}}, failed()
assert neurogc.collect("snapshot") >= 200, "a full collection takes its place"
del bad
{AND_THE_NEXT}
""")


@pytest.mark.parametrize("how", [2, 4], ids=["loops", "waits for a lock"])
def test_a_type_that_hangs_is_ended_in_time(misbehaving, how):
    snap(f"""
sys.path.insert(0, {misbehaving!r})
import misbehaving
misbehaving.take_mutex()
bad = misbehaving.Misbehaving({how}, [])
garbage(100)
began = time.monotonic()
word, why = fly()
assert word == "failed" and "in time" in why, (word, why)
assert 1.5 < time.monotonic() - began < 8 and failed() == {{"late": 1}}, (time.monotonic() - began, failed())
del bad
{AND_THE_NEXT}
""")


def test_a_type_that_hangs_is_ended_when_called_off(misbehaving):
    snap(f"""
sys.path.insert(0, {misbehaving!r})
import misbehaving
bad = misbehaving.Misbehaving(2, [])
agent.snapshot_launch()
agent.snapshot_cancel()
word, why = wait(within=2)
assert word == "failed" and "called off" in why, (word, why)
del bad
{AND_THE_NEXT}
""")


def test_a_type_that_tells_of_a_reference_twice_keeps_what_it_holds(misbehaving):
    snap(f"""
sys.path.insert(0, {misbehaving!r})
import misbehaving
kept = Node()
kept.label = "kept"
alive = [misbehaving.Misbehaving(5, kept), misbehaving.Misbehaving(5, Node())]
for _ in range(100):
    box = []
    box.append(misbehaving.Misbehaving(5, box))
del box
neurogc.collect("snapshot")
assert kept.label == "kept" and not failed(), failed()
neurogc.collect("snapshot")
{AFTERWARDS}
""")


def test_a_type_that_allocates_may_do_so_in_a_quiet_program(misbehaving):
    snap(f"""
sys.path.insert(0, {misbehaving!r})
import misbehaving
alive = [misbehaving.Misbehaving(6, []) for _ in range(100)]
garbage(100)
assert neurogc.collect("snapshot") >= 200 and not failed(), failed()
{AFTERWARDS}
""")


def test_the_clone_is_killed():
    snap(f"""
{LARGE}
import signal
agent.snapshot_launch()
[pid] = walkers()
os.kill(pid, signal.SIGKILL)
word, why = wait()
assert word == "failed" and "signal 9" in why and failed() == {{"killed": 1}}, (word, why, failed())
{AND_THE_NEXT}
""")


@pytest.mark.twice
def test_the_clone_is_stopped():
    snap(f"""
{LARGE}
import signal
agent.snapshot_launch()
[pid] = walkers()
os.kill(pid, signal.SIGSTOP)
word, why = wait()
assert word == "failed" and failed() == {{"late": 1}}, (word, why, failed())
{AND_THE_NEXT}
""")


def test_the_clone_takes_no_signal_of_the_programs():
    snap(f"""
{LARGE}
import signal
seen = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(number, lambda number, _: seen.append(number))
agent.snapshot_launch()
[pid] = walkers()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    os.kill(pid, number)
assert wait()[0] == "ready" and seen == [], seen
drain()
{AND_THE_NEXT}
""")


def test_the_programs_own_waiting_sees_nothing():
    snap(f"""
{LARGE}
import signal, subprocess
children = []
signal.signal(signal.SIGCHLD, lambda *_: children.append(1))
agent.snapshot_launch()
[pid] = walkers()
for _ in range(100):
    try:
        assert os.waitpid(-1, os.WNOHANG) == (0, 0) and False, "the clone was seen"
    except ChildProcessError:
        pass
subprocess.run(["true"], check=True)
before = len(children)
wait()
drain()
time.sleep(0.05)
assert len(children) == before, "its end sent a signal"
{AND_THE_NEXT}
""")


def test_another_thread_waits_for_the_clone():
    snap(f"""
{LARGE}
for _ in range(5):
    agent.snapshot_launch()
    [pid] = walkers()
    try:
        assert os.waitpid(pid, 0x40000000)[0] == pid  # __WALL, which an init or a debugger uses
    except ChildProcessError:
        # The agent has looked first.
        wait(), drain()
    else:
        break
else:
    raise AssertionError("the agent has always looked first")
assert wait()[0] == "ready"
drain()
{AND_THE_NEXT}
""")


def test_the_clone_keeps_no_file_open():
    snap(f"""
{LARGE}
read, write = os.pipe()
agent.snapshot_launch()
[pid] = walkers()
def score():
    with open(f"/proc/{{pid}}/oom_score_adj") as file:
        return file.read().strip()
def files():
    # What it looks at below /proc it opens for a moment.
    found = []
    for number in os.listdir(f"/proc/{{pid}}/fd"):
        try:
            found.append(os.readlink(f"/proc/{{pid}}/fd/{{number}}"))
        except FileNotFoundError:
            pass
    return [name for name in found if not name.startswith("/proc/")]
deadline = time.monotonic() + 5
while (score() != "1000" or files()) and time.monotonic() < deadline:
    pass
assert score() == "1000" and files() == [], (score(), files())
os.close(write)
# The clone does not hold the other end: this is the end of the file, at once.
assert os.read(read, 1) == b""
wait()
drain()
{AND_THE_NEXT}
""")


def test_the_kernel_refuses_the_clone():
    snap(f"""
{SECCOMP}
garbage(1000)
refuse({{CLONE: (errno.EAGAIN, CLONE_VM)}})
for _ in range(3):
    try:
        agent.snapshot_launch()
    except RuntimeError as error:
        assert "refuses to clone" in str(error), error
    else:
        raise AssertionError("it was not refused")
assert failed() == {{"clone": 3}}, failed()
assert neurogc.collect("snapshot") >= 2000, "a full collection takes its place"
{AFTERWARDS}
""")


def test_the_kernel_refuses_an_empty_table_of_files():
    snap(f"""
{SECCOMP}
refuse({{CLOSE_RANGE: (errno.EPERM, 0)}})
read, write = os.pipe()
garbage(1000)
assert neurogc.collect("snapshot") >= 2000 and not failed(), failed()
os.close(write)
assert os.read(read, 1) == b""
{AFTERWARDS}
""")


def test_there_is_no_memory_for_it():
    snap(f"""
import ctypes, resource
garbage(1000)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), resource.RLIM_INFINITY))
try:
    agent.snapshot_launch()
except RuntimeError as error:
    assert "no memory" in str(error), error
else:
    raise AssertionError("it was not refused")
assert neurogc.collect("snapshot") >= 2000
{AFTERWARDS}
""")


def test_there_is_no_memory_for_the_walk():
    snap(f"""
{LARGE}
import resource
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
word, why = fly()
assert word == "failed" and failed() == {{"no_memory": 1}}, (word, why, failed())
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
{AND_THE_NEXT}
""")


def test_the_program_forks_in_flight():
    snap(f"""
{LARGE}
agent.snapshot_launch()
pid = os.fork()
if pid == 0:
    # The child has nothing of it, and snapshots of its own.
    status = 1
    try:
        assert agent.snapshot_look()[0] == "idle" and shared_mappings() == [] and gc_pending() >= 0
        assert agent.snapshot_figures()["launched"] == 0
        assert neurogc.collect("snapshot") >= 2000 and agent.snapshot_figures()["launched"] == 1
        status = 0
    finally:
        os._exit(status)
assert wait()[0] == "ready", "the parent's flight goes on"
assert drain()[0] >= 2000
assert os.waitpid(pid, 0)[1] == 0
{AND_THE_NEXT}
""")


def test_the_program_forks_while_it_frees():
    snap(f"""
statuses = []
class Forking:
    def __init__(self):
        self.me = self
    def __del__(self):
        pid = os.fork()
        if pid == 0:
            gc.collect()
            os._exit(0)
        statuses.append(os.waitpid(pid, 0)[1])
Forking()
garbage(100)
assert fly()[0] == "ready"
young = [cycle() for _ in range(100)]
drain()
assert statuses == [0] and all(one.other.other is one for one in young)
{AND_THE_NEXT}
""")


def test_the_program_forks_while_it_frees_and_the_child_goes_on():
    snap("""
class Forking:
    def __init__(self):
        self.me = self
    def __del__(self):
        self.pid = pids.append(os.fork())
pids = []
Forking()
garbage(20_000)
assert fly()[0] == "ready"
young = [cycle() for _ in range(1000)]
drain(1)
# Both come back from the slice in which the fork was.
assert len(pids) == 1 and all(one.other.other is one for one in young)
gc.collect()
garbage(500)
assert neurogc.collect("snapshot") >= 1000, failed()
if pids[0] == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 7
""")


def test_native_code_forks_in_flight():
    snap(f"""
{LARGE}
import ctypes
libc = ctypes.CDLL(None)
agent.snapshot_launch()
pid = libc.syscall({{"x86_64": 57}}.get(os.uname().machine, 0)) if os.uname().machine == "x86_64" else 1
if pid == 0:
    # No hook of ours has run here. The child may do anything but touch the parent's clone.
    status = 1
    try:
        assert agent.snapshot_look()[0] == "idle" and agent.snapshot_reap(5, True) == (0, 0, 0, 0, 0)
        agent.snapshot_cancel()
        gc.collect()
        status = 0
    finally:
        os._exit(status)
assert wait()[0] == "ready"
assert drain()[0] >= 2000
assert pid == 1 or os.waitpid(pid, 0)[1] == 0
{AND_THE_NEXT}
""")


def test_the_program_starts_others_in_flight():
    snap(f"""
{LARGE}
import subprocess
agent.snapshot_launch()
for _ in range(5):
    assert subprocess.run(["echo", "x"], capture_output=True, check=True).stdout == b"x\\n"
assert wait()[0] == "ready"
assert drain()[0] >= 2000
{AND_THE_NEXT}
""")


def test_the_program_is_replaced_in_flight():
    out = snap(f"""
{LARGE}
agent.snapshot_launch()
os.execv(sys.executable, [sys.executable, "-S", "-c", "import os; print(os.getpid()); print('done')"])
""", NEUROGC_ROOT_PID="0")
    assert out.endswith("done\n")


# What the new program finds: the clone, which has been stopped before it could end.
LEFT_BEHIND = """
import os, signal, time
def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
[pid] = children()
# It looks for its program every 50 ms, and may be done sooner.
time.sleep(0.1)
os.kill(pid, signal.SIGCONT)
deadline = time.monotonic() + 10
"""


def replaced(*words):
    """Runs a program that is replaced by another one, given by its command line, while a snapshot is in flight."""
    return snap(f"""
import signal
{LARGE}
agent.snapshot_launch()
[pid] = walkers()
os.kill(pid, signal.SIGSTOP)
os.execv(sys.executable, [sys.executable, *{words!r}])
""")


def test_the_clone_ends_when_the_program_is_replaced():
    out = replaced("-I", "-S", "-c", LEFT_BEHIND + """
while (seen := os.waitpid(pid, os.WNOHANG | 0x40000000))[0] == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
print(seen == (pid, 1 << 8), deadline - time.monotonic() > 8)
""")
    # It has not walked to the end, which would be 0.
    assert out == "True True\n"


@pytest.mark.twice
def test_the_agent_in_the_new_program_waits_for_the_clone():
    out = replaced("-c", LEFT_BEHIND + """
while children() and time.monotonic() < deadline:
    time.sleep(0.01)
print(children())
""")
    assert out == "[]\n"


@pytest.mark.parametrize("landed", [False, True])
def test_the_program_takes_the_thresholds_over_in_flight(landed):
    snap(f"""
{LARGE}
agent.snapshot_launch()
if {landed}:
    wait()
gc.set_threshold(700, 10, 10)
assert any("stands down" in reason for reason in neurogc.status()["degraded"]), neurogc.status()["degraded"]
assert failed() == {{"cancelled": 1}}, failed()
{AND_THE_NEXT}
""", NEUROGC_POLICY="gap")


def test_it_is_called_off_while_a_slice_is_freed():
    snap(f"""
class Leaving:
    def __init__(self):
        self.me = self
    def __del__(self):
        gc.set_threshold(700, 10, 10)
Leaving()
garbage(20_000)
assert fly()[0] == "ready"
drain(1)
assert failed() == {{"cancelled": 1}}, failed()
{AND_THE_NEXT}
""", NEUROGC_POLICY="gap")


def test_the_program_ends_in_flight():
    out = snap(f"""
{LARGE}
agent.snapshot_launch()
[pid] = walkers()
print(pid)
""")
    assert_gone(int(out))


def test_the_program_ends_with_something_to_free():
    snap(f"""
{LARGE}
assert fly()[0] == "ready"
agent.snapshot_reap(0.1, False)
""")


def test_the_program_is_killed_in_flight(misbehaving):
    out = snap(f"""
{LARGE}
sys.stdout.reconfigure(line_buffering=True)
if os.fork() == 0:
    assert agent.snapshot_launch() is None
    [pid] = walkers()
    print(pid)
    os.kill(os.getpid(), 9)
os.wait()
""")
    assert_gone(int(out))


def test_uninstalling_in_flight_ends_it():
    snap(f"""
{LARGE}
agent.snapshot_launch()
neurogc.uninstall()
assert walkers() == [] and shared_mappings() == [] and gc_pending() >= 0
neurogc.install(policy="observe")
{AND_THE_NEXT}
""")


def assert_gone(pid):
    """The process ends soon, if it has not yet."""
    from observed import eventually

    def gone():
        try:
            with open(f"/proc/{pid}/stat") as file:
                # A zombie has ended; it only stays because no process waits for it here.
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    eventually(gone, within=10, what="the end of the clone")

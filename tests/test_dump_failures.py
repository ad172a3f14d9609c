"""Heap dumps that come to nothing, or nearly: the program lives on, and a file is whole or not there."""

import json
import subprocess
import sys
import time

import ngch
import pytest
from observed import Running, binary, command, environment, socket_path
from snapshots import PRELUDE, snap
from test_memory_bound import within_300_mb  # noqa: F401
from test_snapshot_apart import BUFFERS
from test_snapshot_memory import limited  # noqa: F401

pytestmark = pytest.mark.needs_agent

# A dump in a thread of its own, and what becomes of it.
BESIDE = """
import signal
live = [[number] for number in range(300_000)]

def dump_beside(*words, **options):
    told = []
    def work():
        try:
            told.append(neurogc.heap._write(*words, True, **options))
        except (RuntimeError, OSError) as error:
            told.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    while not (found := walkers()):
        assert not told, told
        time.sleep(0.0005)
    return thread, told, found[0]
"""


def test_the_clone_of_a_dump_is_killed(tmp_path):
    snap(BESIDE + f"""
path = {str(tmp_path / "heap.ngch")!r}
thread, told, pid = dump_beside(path)
os.kill(pid, signal.SIGKILL)
thread.join()
assert isinstance(told[0], RuntimeError) and "signal 9" in str(told[0]), told
assert os.listdir(os.path.dirname(path)) == []
assert neurogc.heap.dump(path)["objects"] > 600_000
nothing_is_left()
""")
    assert ngch.read(tmp_path / "heap.ngch").foot["objects"] > 600_000


@pytest.mark.timing
def test_a_dump_is_called_off_when_memory_runs_short_where_no_policy_acts(limited, tmp_path):  # noqa: F811
    limited(BESIDE + f"""
path = {str(tmp_path / "heap.ngch")!r}
thread, told, pid = dump_beside(path)
# It would be over too soon.
os.kill(pid, signal.SIGSTOP)
leave(0)
began = time.monotonic()
thread.join()
assert isinstance(told[0], RuntimeError) and "too little memory" in str(told[0]), told
assert time.monotonic() - began < 1.5, time.monotonic() - began
assert not os.path.exists(path) and not os.path.exists(path + ".part")
leave(LIMIT)
assert neurogc.heap.dump(path)["objects"] > 600_000
""", "observe")


@pytest.mark.twice
def test_a_dump_because_memory_is_short_is_not_called_off_for_that(limited, tmp_path):  # noqa: F811
    limited(BESIDE + f"""
leave(0)
thread, told, pid = dump_beside({str(tmp_path / "heap.ngch")!r}, urgent=True)
os.kill(pid, signal.SIGSTOP)
# The sampler looks many times.
time.sleep(0.3)
os.kill(pid, signal.SIGCONT)
thread.join()
assert told[0]["objects"] > 600_000, told
""", "observe")
    assert ngch.read(tmp_path / "heap.ngch").foot["objects"] > 600_000


# Fills the cgroup to about 280 of its 300 MB, and writes to memory all the time, which copies it while a clone is there.
FULL = PRELUDE + """
live = [[number] for number in range(800_000)]
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
ballast = []
while resident() < 270 << 20:
    ballast.append(bytes(100_000))
over = threading.Event()
def write():
    number = 0
    while not over.is_set():
        for item in live:
            item[0] = number
        number += 1
thread = threading.Thread(target=write)
thread.start()
outcomes = []
for urgent in (False, True, True):
    try:
        neurogc.heap._write(sys.argv[1], True, urgent)
        outcomes.append("written")
    except RuntimeError as error:
        outcomes.append(str(error))
over.set()
thread.join()
assert len(live) == 800_000 and live[0] == live[-1]
print(*outcomes, sep="\\n")
"""


@pytest.mark.twice
def test_a_dump_in_a_full_cgroup_ends_the_clone_and_not_the_program(within_300_mb, tmp_path):  # noqa: F811
    path = tmp_path / "heap.ngch"
    words = [*within_300_mb, *command(sys.executable, "-c", FULL, path)]
    done = subprocess.run(
        words, env=environment(NEUROGC_POLICY="observe"), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stdout, done.stderr)
    first, *urgent = done.stdout.splitlines()
    # One that is not urgent is not begun there. The kernel decides about the others, and it takes the clone.
    assert "memory is too short" in first, done.stdout
    assert all(outcome == "written" or "signal 9" in outcome or "no memory" in outcome for outcome in urgent), urgent
    assert path.exists() == ("written" in urgent) and not (tmp_path / "heap.ngch.part").exists()
    if path.exists():
        assert ngch.read(path).foot["objects"] > 800_000


@pytest.mark.twice
def test_a_dump_on_one_busy_core(tmp_path):
    snap(f"""
import subprocess
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
live = [[number] for number in range(200_000)]
busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
over = threading.Event()
thread = threading.Thread(target=lambda: [live[number % 1000].append(number) for number in iter(over.is_set, True)])
thread.start()
try:
    assert neurogc.heap.dump({str(tmp_path / "heap.ngch")!r})["objects"] > 400_000
    assert neurogc.heap.count()["list"]["count"] > 200_000
finally:
    over.set()
    thread.join()
    for process in busy:
        process.kill()
        process.wait()
""", timeout=120)
    assert ngch.read(tmp_path / "heap.ngch").foot["objects"] > 400_000


# Lists lie where a buffer was that collections have left out of their clones. Most likely: if not, there is nothing to be seen.
LEFT_OUT = BUFFERS + """
buffer = filled(512 * MB)
snapshot()
snapshot()
assert latest()["apart_bytes"] >= 320 * MB, latest()
where = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
del buffer
lists = [[None] * 15_000_000 for _ in range(4)]
marker = "found in the memory that was left out"
lists[0][7_000_000] = lists[3][7_000_000] = [marker]
live = [[number] for number in range(200_000)]
"""


def check_whole(path, size):
    """The file is one dump from its first byte to its last."""
    assert path.stat().st_size == size
    words = [binary(), "heap", "path", str(path), "__main__.lists[3][7000000]", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    # Steps that take longer than a second are told, each in a line that begins with the file.
    others = [line for line in done.stderr.splitlines() if not line.startswith(f"{path}: ") or "cut" in line]
    assert (done.returncode, others) == (0, []), done


@pytest.mark.timing
@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_a_dump_that_misses_memory_is_taken_again(tmp_path):
    path = tmp_path / "heap.ngch"
    size = snap(LEFT_OUT + f"""
figures = neurogc.heap.dump({str(path)!r})
snapshot()
assert latest()["apart_bytes"] == 0, "nothing was missing"
assert set_apart() == before
nothing_is_left()
print(figures["bytes"])
""", timeout=120)
    check_whole(path, int(size))


@pytest.mark.twice
@pytest.mark.timing
@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_the_command_gets_the_second_one(tmp_path):
    code = PRELUDE + LEFT_OUT + """
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
    with Running(code, policy="observe", within=120) as program:
        assert program.line() == "ready"
        while not socket_path(program.pid).exists():
            time.sleep(0.01)
        path = tmp_path / "heap.ngch"
        words = [binary(), "heap", "dump", str(program.pid), "-o", str(path), "--json"]
        for _ in range(3):
            done = subprocess.run(words, capture_output=True, text=True)
            # A busy machine may have no time for sixty million references.
            if "did not end in time" not in done.stderr:
                break
        assert done.returncode == 0, done.stderr
    check_whole(path, json.loads(done.stdout)["bytes"])

"""Large memory without Python objects is left out of clones, and never more than that."""

import pytest
from snapshots import extension, snap

pytestmark = pytest.mark.needs_agent

BUFFERS = """
import ctypes
def filled(size):
    buffer = bytearray(size)
    ctypes.memset((ctypes.c_char * size).from_buffer(buffer), 7, size)
    return buffer

def latest():
    figures = agent.snapshot_figures()
    return figures["latest"]

def set_apart():
    # Mappings that forks would leave out, or leave empty.
    with open("/proc/self/smaps") as file:
        return [line for line in file if line.startswith("VmFlags:") and (" dc" in line or " wf" in line)]

before = set_apart()
MB = 1 << 20
"""


@pytest.mark.timing
def test_a_large_buffer_is_left_out_from_the_second_flight_on():
    snap(BUFFERS + """
live = [[number] for number in range(100_000)]
buffer = filled(512 * MB)
clones = []
for _ in range(4):
    garbage(100)
    assert neurogc.collect("snapshot") >= 200
    clones.append(latest()["clone_ns"])
    assert set_apart() == before, "it is undone at once"
assert latest()["apart_bytes"] >= 320 * MB, latest()
assert min(clones[1:]) < clones[0] / 2, clones
# A fork of the program's has it all.
pid = os.fork()
if pid == 0:
    os._exit(buffer[0] - 7 or buffer[-1] - 7)
assert os.waitpid(pid, 0)[1] == 0 and not failed()
""")


def test_what_the_program_keeps_from_its_children_stays_kept_from_them():
    snap(BUFFERS + """
import mmap
buffer = mmap.mmap(-1, 512 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
ctypes.memset((ctypes.c_char * len(buffer)).from_buffer(buffer), 7, len(buffer))
snapshot()
snapshot()
assert latest()["apart_bytes"] >= 320 * MB
# Drivers of network and graphics cards do this to memory that they have pinned.
buffer.madvise(mmap.MADV_DONTFORK)
asked = set_apart()
assert len(asked) > len(before)
for _ in range(3):
    garbage(100)
    assert snapshot() >= 200
    assert set_apart() == asked
assert latest()["apart_bytes"] >= 320 * MB and failed().keys() <= {"late"}, failed()
""")


def test_children_of_a_native_fork_have_what_is_left_out(tmp_path):
    snap(BUFFERS + f"""
forks = ctypes.CDLL({extension("forks", tmp_path)!r} + "/forks.so")
""" + """
forks.children_without.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_char, ctypes.c_void_p]
buffer = filled(512 * MB)
snapshot()
snapshot()
assert latest()["apart_bytes"] >= 320 * MB
where = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
stop, without = ctypes.c_int(0), []
def fork_on():
    without.append(forks.children_without(where, len(buffer), 7, ctypes.addressof(stop)))
thread = threading.Thread(target=fork_on)
thread.start()
try:
    for _ in range(30):
        garbage(100)
        snapshot()
finally:
    stop.value = 1
    thread.join()
assert without == [0], without
""", timeout=120)


@pytest.mark.twice
def test_memory_of_python_objects_is_not_left_out():
    snap(BUFFERS + """
# Numbers and texts are not looked at by the walk, but others may lie in the same arenas soon.
numbers = list(range(10**9, 10**9 + 6_000_000))
items = [None] * 20_000_000
dictionary = dict.fromkeys(range(3_000_000))
dictionary[0] = []
for _ in range(3):
    garbage(100)
    assert snapshot() >= 200
assert latest()["apart_bytes"] == 0 and failed().keys() <= {"late"}, (latest(), failed())
""")


def test_memory_that_is_used_anew_is_found_missing_and_the_next_flight_has_it():
    snap(BUFFERS + """
buffer = filled(512 * MB)
snapshot()
snapshot()
assert latest()["apart_bytes"] >= 320 * MB
late = failed().get("late")
where = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
del buffer
# Lists take its place, most likely at the same addresses. If not, there is nothing to be seen here.
lists = [[None] * 15_000_000 for _ in range(4)]
marker = Node()
lists[0][7_000_000] = lists[3][7_000_000] = marker
for _ in range(15):
    garbage(100)
    assert neurogc.collect("snapshot") >= 200
    before_that, late = late, failed().get("late")
    if late == before_that:
        break
assert failed().keys() <= {"late", "missing"} and failed().get("missing", 1) == 1, failed()
assert latest()["apart_bytes"] == 0, latest()
assert lists[0][7_000_000] is marker and set_apart() == before
nothing_is_left()
print(failed())
""", timeout=120)


def test_a_refused_clone_leaves_nothing_set_apart():
    from test_snapshot_failures import SECCOMP

    snap(BUFFERS + SECCOMP + """
buffer = filled(256 * MB)
neurogc.collect("snapshot")
refuse({CLONE: (errno.EAGAIN, CLONE_VM)})
try:
    agent.snapshot_launch()
except RuntimeError:
    pass
assert failed() == {"clone": 1} and set_apart() == before
""")

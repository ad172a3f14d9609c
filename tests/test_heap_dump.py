"""Heap dumps have every object that Python code finds, with its size, and names for what holds it."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time

import ngch
import pytest
from observed import Running, binary, python, socket_path
from snapshots import app, snap

pytestmark = pytest.mark.needs_agent


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """Where the dump of the program with the difficult heap is, and what the program found there."""
    path = tmp_path_factory.mktemp("dump") / "heap.ngch"
    return path, json.loads(app("heap_dump.py", str(path)))


@pytest.fixture
def report(dumped):
    """What the program with the difficult heap found when it compared its dump with what it sees."""
    return dumped[1]


def test_every_object_that_python_finds_is_there(report):
    assert report["missing"] == [] and report["wrong"] == []
    assert report["foot"] and report["objects"] == report["figures"]["objects"] > report["found"] > 50_000


def test_references_are_those_that_python_finds(report):
    # A few dicts and the running coroutine have changed since.
    assert report["referents"] > 300_000 and report["lost"] < 60, report["lost_of"]


def test_sizes_are_those_of_getsizeof(report):
    assert abs(report["ours"] - report["theirs"]) < report["theirs"] * 0.005, report["differ"]
    assert report["absolute"] < report["theirs"] * 0.005, report["differ"]


def test_a_long_list_is_divided_among_blocks(report):
    assert report["blocks"] > 2
    assert report["labels"]["last"] == ["in a long list"]


def test_references_have_the_names_that_a_person_would_write(report):
    labels = report["labels"]
    expected = {
        "module": "__main__", "attribute": "plain 3", "slot": [2], "deque": [999], "turned": [299],
        "dict": ["in a dict of its own"], "closure": ["held by a closure"], "module global of function": 0,
        "code": "generator", "generator": [["first"]], "only a key": ["only a key"], "holes": 100,
        "finalizer": ["__main__.Finalized"],
    }
    assert {name: labels[name] for name in expected} == expected


def test_arrays_of_numpy_have_their_size_and_their_objects(report):
    # The environment of CPython 3.11 has numpy 1, where a description of elements looks different.
    pytest.importorskip("numpy", reason="numpy is not installed for this interpreter")
    arrays = report["arrays"]
    assert len(arrays) == 13 and [name for name, (ours, theirs) in arrays.items() if ours != theirs] == [], (arrays, report["numpy"])
    assert arrays["owner"][0] > 400_000 and arrays["view"][0] < 200 < 32_000 < arrays["objects"][0]
    assert report["labels"]["object array"] == [["in an array", 2]]


def test_values_of_strings_and_integers_are_there(report):
    labels = report["labels"]
    assert (labels["negative"], labels["huge"]) == (-12345678901, None)
    assert (labels["latin"], labels["wide"], labels["widest"]) == ("é" * 30, "ж" * 64, "😀" * 64)


def test_threads_frames_and_tasks_are_told(report):
    labels = report["labels"]
    assert labels["locals"] == {"local_of_main": ["local of main"], "local_of_thread": ["local of a thread"]}
    assert labels["functions"] == ["<module>", "dump", "main", "thread_with_locals"] and labels["lines"]
    assert labels["threads"] == ["MainThread", "a thread of ours"] and labels["current"] == ["MainThread"]
    assert labels["task"] == {"state": 0, "name": "sleeper", "coroutine": True, "awaits": True}
    assert labels["tracked"] == [True, False]


def test_without_text_only_names_are_there(tmp_path, report):
    path = tmp_path / "heap.ngch"
    without = json.loads(app("heap_dump.py", str(path), "--no-text"))
    assert without["withheld"] == [] != report["withheld"]
    dump = ngch.read(path)
    texts = {it.value for it in dump.objects if it.type.kind == "str"}
    assert {"thread_with_locals", "local_of_thread", "heap", "first"} <= texts
    assert not texts & {"plain 3", "in a long list", "held by a closure"}
    assert all(it.value is None for it in dump.objects if it.type.kind == "int")
    assert dump.head["flags"] == 0


def test_only_the_user_can_read_the_file_and_nothing_is_left(tmp_path):
    path = tmp_path / "heap.ngch"
    snap(f"""
import stat
before = sorted(os.listdir("/proc/self/fd"))
figures = neurogc.heap.dump({str(path)!r})
assert figures["objects"] > 10_000 and figures["bytes"] == os.path.getsize({str(path)!r}), figures
assert sorted(os.listdir("/proc/self/fd")) == before
nothing_is_left()
""")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["heap.ngch"]


def test_what_cannot_be_written_raises_and_leaves_nothing(tmp_path):
    snap(f"""
for path in ({str(tmp_path / "no folder" / "heap.ngch")!r}, "/dev/full/heap"):
    try:
        neurogc.heap.dump(path)
    except OSError:
        pass
    else:
        raise AssertionError(path)
# A full disk.
full = os.open("/dev/full", os.O_WRONLY)
try:
    agent.heap_dump(full, 0, full, True, False)
except RuntimeError as error:
    assert "no room" in str(error), error
else:
    raise AssertionError("no error")
os.close(full)
nothing_is_left()
assert neurogc.heap.count()["dict"]["count"] > 100
""")


def test_memory_first_and_the_rest_on_disk(tmp_path):
    path = tmp_path / "heap.ngch"
    snap(f"""
neurogc.heap._MEMORY = 100_000
figures = neurogc.heap.dump({str(path)!r})
assert figures["bytes"] > 200_000
""")
    assert ngch.read(path).foot["objects"] > 10_000


def test_counts_by_type_are_those_of_the_program():
    snap("""
class Counted:
    pass
kept = [Counted() for _ in range(12_345)]
counts = neurogc.heap.count()
assert counts["__main__.Counted"]["count"] == 12_345, counts["__main__.Counted"]
assert counts["__main__.Counted"]["bytes"] >= 12_345 * 48
assert counts["list"]["bytes"] > 8 * 12_345
assert list(counts) == sorted(counts, key=lambda name: -counts[name]["count"])
nothing_is_left()
""")


def test_a_dump_leaves_the_collector_as_it_was():
    snap("""
gc.collect()
young = [[] for _ in range(100)]
before, frozen = gc.get_count(), gc.get_freeze_count()
neurogc.heap.count()
after = gc.get_count()
assert after[0] >= before[0] and after[1:] == before[1:], (before, after)
garbage(1000)
assert gc.collect() >= 2000
""")


def test_a_fork_during_the_flight_harms_nothing(tmp_path):
    snap(f"""
path = {str(tmp_path / "heap.ngch")!r}
kept = [{{"number": number}} for number in range(300_000)]
done = []
thread = threading.Thread(target=lambda: done.append(neurogc.heap.dump(path)))
thread.start()
children = []
while thread.is_alive():
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.collect() >= 0 else 1)
    children.append(os.waitpid(child, 0)[1])
thread.join()
assert children and set(children) == {{0}}, children
assert done and done[0]["objects"] > 600_000, done
nothing_is_left()
""", timeout=120)
    dump = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import ngch; "
                           f"print(ngch.read({str(tmp_path / 'heap.ngch')!r}).foot['objects'])"], capture_output=True, text=True)
    assert int(dump.stdout) > 600_000, dump


def test_a_collection_during_the_flight_does_not_end_it():
    snap("""
kept = [{"number": number} for number in range(200_000)]
counts = []
thread = threading.Thread(target=lambda: counts.append(neurogc.heap.count()))
thread.start()
while thread.is_alive():
    gc.collect()
thread.join()
assert counts[0]["dict"]["count"] > 200_000
nothing_is_left()
""")


def test_a_program_without_memory_to_spare_is_told_so():
    snap("""
import resource
kept = [[] for _ in range(100_000)]
with open("/proc/self/statm") as pages:
    now = int(pages.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 20), resource.RLIM_INFINITY))
try:
    neurogc.heap.count()
except RuntimeError as error:
    told = str(error)
else:
    told = None
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert told and "memory" in told, told
assert neurogc.heap.count()["list"]["count"] > 100_000
nothing_is_left()
""")


@pytest.mark.twice
def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path, dumped):
    path = shutil.copy(dumped[0], tmp_path / "heap.ngch")
    whole = ngch.read(path)
    length = path.stat().st_size
    for share in (0.5, 0.9, 0.999):
        os.truncate(path, int(length * share))
        cut = ngch.read(path)
        assert cut.foot is None and cut.types and cut.roots
        assert 0 < len(cut.objects) <= len(whole.objects) == cut.head["objects"]
        length = path.stat().st_size


def test_garbage_is_in_the_dump(tmp_path):
    path = tmp_path / "heap.ngch"
    snap(f"garbage(500)\nneurogc.heap.dump({str(path)!r})")
    nodes = [it for it in ngch.read(path).objects if it.type.name == "__main__.Node"]
    assert len(nodes) == 1000


@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_the_command_dumps_a_running_process(tmp_path):
    code = "import time\nheld = ['held by the program'] * 1000\nprint('up', flush=True)\nwhile True: time.sleep(0.01)"
    with Running(code, policy="observe", within=60) as program:
        assert program.line() == "up"
        while not socket_path(program.pid).exists():
            time.sleep(0.01)
        path = tmp_path / "heap.ngch"
        done = subprocess.run(
            [binary(), "heap", "dump", str(program.pid), "-o", str(path), "--json"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
    assert figures["bytes"] == path.stat().st_size and figures["pause_ms"] > 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    dump = ngch.read(path)
    assert len(dump.objects) == figures["objects"] == dump.foot["objects"]
    assert any(it.value == "held by the program" for it in dump.objects if it.type.kind == "str")


def test_objects_of_arrow_have_the_memory_that_they_share(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed for this interpreter")
    path = tmp_path / "heap.ngch"
    known = json.loads(python(f"""
import json, neurogc, pyarrow as pa
before = pa.total_allocated_bytes()
numbers = pa.array(range(1_000_000))
part, again = numbers[1000:2000], pa.chunked_array([numbers, numbers[:500_000]])
texts = pa.table({{"text": [str(n) for n in range(300_000)], "number": range(300_000)}})
lists = pa.RecordBatch.from_pydict({{"lists": [[n, n] for n in range(200_000)]}})
coded = pa.array(["a" * 1000 + str(n % 1000) for n in range(100_000)]).dictionary_encode()
raw = pa.allocate_buffer(3_000_000)
foreign = pa.py_buffer(bytes(50_000_000))
neurogc.heap.dump({str(path)!r})
print(json.dumps(pa.total_allocated_bytes() - before))
"""))
    counted = sum(it.size for it in ngch.read(path).objects if it.type.kind == "arrow")
    assert 0.99 * known <= counted <= 1.01 * known + 10_000, (known, counted)


def test_a_file_that_was_there_before_is_not_written_to(tmp_path):
    # In a shared folder another user may have made it, and may hold it open.
    path = tmp_path / "heap.ngch"
    before = tmp_path / "heap.ngch.part"
    before.write_text("")
    before.chmod(0o666)
    with before.open() as held:
        python(f"import neurogc; neurogc.heap.dump({str(path)!r})")
        assert held.read() == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_size > 1000


@pytest.mark.once
@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_a_planted_leak_is_first_where_everything_else_moved(tmp_path):
    """About a million objects, all of which are replaced between two dumps, and 20,000 more that an attribute keeps."""
    before, after = tmp_path / "before.ngch", tmp_path / "after.ngch"
    python(f"""
import gc, random, sys, types
import neurogc
gc.disable()
chance = random.Random(7)

class Order:
    def __init__(self, number):
        self.items = [number * 1000 + 500_000, number * 1000 + 500_001]
        self.customer = {{"name": f"customer {{number}}", "city": f"city {{number % 997}}"}}
        self.note = f"note of order {{number}}"

class Session:
    def __init__(self, user):
        self.user = f"user {{user}}"

class Registry:
    def __init__(self):
        self.sessions = []

app = sys.modules["app"] = types.ModuleType("app")
app.registry = Registry()

def rebuild():
    # Each cache is made anew, in another order, and has up to a hundredth more or less than before.
    app.orders = [Order(number) for number in chance.sample(range(200_000), 100_000 + chance.randrange(1000))]
    app.by_name = {{f"key {{number}}": [number] for number in chance.sample(range(100_000), 50_000 + chance.randrange(500))}}
    app.registry.sessions[:] = map(Session, range(len(app.registry.sessions)))

app.registry.sessions += map(Session, range(5_000))
rebuild()
first = neurogc.heap.dump({str(before)!r})
assert first["objects"] > 900_000, first
rebuild()
app.registry.sessions += map(Session, range(20_000))
neurogc.heap.dump({str(after)!r})
""", timeout=120)
    done = subprocess.run([binary(), "heap", "diff", str(before), str(after), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["rows"][0]
    assert (first["place"], first["type"], first["objects"]) == ("app.registry.sessions[…]", "__main__.Session", 20_000), first

"""Before a dump or a count that was asked for, arenas on small pages are put into huge ones, so that the clone is short."""

import json
import subprocess
import time

import pytest
from observed import Running, binary, socket_path
from snapshots import PRELUDE, snap
from test_huge_arenas import MEMORY, possible


def can_collapse():
    """Whether this kernel puts pages together when asked."""
    import ctypes

    return ctypes.CDLL(None).madvise(ctypes.c_void_p(2 << 20), 0, 25) == 0


pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not possible() or not can_collapse(), reason="this kernel does not make huge pages of small ones"),
]

OBSERVED = PRELUDE + MEMORY + """
import tempfile
gc.disable()
NO_PAGES = "the kernel had no huge pages left"
over = threading.Event()
folder = tempfile.mkdtemp()

# A busy machine has no time for all hundred of them.
MANY = 25

def was_done(told):
    return told["huge_pages_why_not"] in (None, "there was no time for more")

def dump(**options):
    path = os.path.join(folder, "heap.ngch")
    try:
        told = neurogc.heap.dump(path, **options)
    finally:
        os.unlink(path)
    if told["huge_pages_why_not"] == NO_PAGES:
        # Its memory is in small pieces, whatever the process does.
        print(NO_PAGES)
        sys.stdout.flush()
        os._exit(0)
    return told
"""


def observed(code, **keywords):
    """Runs code under a policy that does not act, whose arenas are on small pages."""
    if "no huge pages left" in snap(code, prelude=OBSERVED, **({"NEUROGC_POLICY": "observe", "NEUROGC_GATHER_PAGES": "true"} | keywords)):
        pytest.skip("the kernel has no huge pages left")


def test_a_dump_finds_the_heap_in_huge_pages():
    observed("""
data = heap(200)
data[1000] = marker = bytes(range(256)) + bytes(200)
assert smaps("AnonHugePages") < 20, smaps("AnonHugePages")
before = smaps("Rss")
told = dump()
assert told["huge_pages"] >= MANY and was_done(told), told
# The flight breaks some of them up again: the program writes to counts of references.
assert smaps("AnonHugePages") > MANY, (told, smaps("AnonHugePages"))
assert smaps("Rss") < before + 20, (before, smaps("Rss"))
assert data[1000] is marker and all(item == bytes(463) for item in data if item is not marker)
nothing_is_left()
""")


def test_a_count_does_so_too_and_a_census_does_not():
    observed("""
data = heap(160) + [[] for _ in range(60_000)]
deadline = time.monotonic() + 20
while not neurogc.status()["census"]["types"]:
    assert time.monotonic() < deadline
    time.sleep(0.05)
assert smaps("AnonHugePages") < 20, smaps("AnonHugePages")
neurogc.heap.count()
if smaps("AnonHugePages") <= MANY:
    dump()
assert smaps("AnonHugePages") > MANY, smaps("AnonHugePages")
""", NEUROGC_CENSUS_S="1")


def test_the_memory_goes_back_when_objects_do():
    observed("""
before = smaps("Rss")
data = heap(200)
assert dump()["huge_pages"] >= MANY
# Every other arena or so is given back, which is a half of a huge page.
del data[:120 * 2048]
soon(lambda: smaps("Rss") < before + 110)
assert dump()["objects"] > 1000
del data
soon(lambda: smaps("Rss") < before + 30)
""")


def test_it_can_be_switched_off():
    observed("""
data = heap(160)
told = dump()
assert told["huge_pages"] == 0 and "gather_pages" in told["huge_pages_why_not"], told
assert smaps("AnonHugePages") < 20
""", NEUROGC_GATHER_PAGES="false")


def test_a_process_that_may_not_have_them_is_told_so():
    observed("""
import ctypes
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
data = heap(160)
told = dump()
assert told["huge_pages"] == 0 and "offers" in told["huge_pages_why_not"], told
""")


def test_a_small_process_is_left_as_it_is():
    observed("""
told = dump()
assert told["huge_pages"] == 0 and told["huge_pages_why_not"] is None, told
""")


@pytest.mark.twice
def test_what_is_shared_with_a_child_stays_shared():
    observed("""
data = heap(200)
ours, theirs = os.pipe()
child = os.fork()
if child == 0:
    os.close(theirs)
    os.read(ours, 1)
    os._exit(0)
try:
    before = smaps("Pss")
    told = dump()
    assert told["huge_pages"] < MANY, told
    assert smaps("Pss") < before + 40, (before, smaps("Pss"))
finally:
    os.close(theirs)
    os.waitpid(child, 0)
assert dump()["huge_pages"] >= MANY
""")


@pytest.mark.twice
def test_threads_take_arenas_and_give_them_back_meanwhile():
    observed("""
data = heap(200)
def churn():
    while not over.is_set():
        mine = heap(8)
        assert mine[0] == mine[-1] == bytes(463)
threads = [threading.Thread(target=churn) for _ in range(3)]
for thread in threads:
    thread.start()
try:
    pages = [dump()["huge_pages"] for _ in range(4)]
finally:
    over.set()
for thread in threads:
    thread.join()
assert max(pages) >= MANY, pages
assert all(item == bytes(463) for item in data)
nothing_is_left()
""", timeout=120)


@pytest.mark.twice
@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_the_command_says_what_was_done(tmp_path):
    code = "data = [bytes(463) for _ in range(200 * 2048)]\nprint('ready', flush=True)\nimport time\nwhile True: time.sleep(0.01)"
    with Running(code, policy="observe", NEUROGC_GATHER_PAGES="true", within=120) as program:
        assert program.line() == "ready"
        while not socket_path(program.pid).exists():
            time.sleep(0.01)
        words = [binary(), "heap", "dump", str(program.pid), "-o", str(tmp_path / "a.ngch")]
        told = json.loads(subprocess.run([*words, "--json"], check=True, capture_output=True, text=True).stdout)
        if told["huge_pages_why_not"] == "the kernel had no huge pages left":
            pytest.skip(told["huge_pages_why_not"])
        assert told["huge_pages"] >= 25, told
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert "small objects were put into" in text, text

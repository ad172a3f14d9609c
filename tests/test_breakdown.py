"""Where the resident memory of real programs is, and giving free memory of `malloc` back."""

import glob
import json
import os
import subprocess
import sys

import pytest
from observed import TOLD_BY_LINES, ask, eventually, start

pytestmark = pytest.mark.needs_agent

PARTS = ["python_used", "python_free", "malloc_used", "malloc_free", "mapped", "stacks", "libraries", "other"]
MB = 1 << 20

# A program that is told to do something, and answers with a breakdown.
PROGRAM = (
    TOLD_BY_LINES
    + """
import ctypes, gc, json, mmap, os, threading, time
import neurogc
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
kept = []
stop = threading.Event()

def fill(size, count):
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    return blocks

def threads(number, size, count, every):
    \"\"\"Threads that allocate and free all but a few blocks, and stay.\"\"\"
    ready = threading.Barrier(number + 1)
    def work():
        blocks = fill(size, count)
        ready.wait()
        for index, block in enumerate(blocks):
            if index % every:
                libc.free(block)
        ready.wait()
        stop.wait()
    for _ in range(number):
        threading.Thread(target=work, daemon=True).start()
    ready.wait()
    ready.wait()

def blocks(size, count):
    kept.extend(fill(size, count))

def objects(count):
    kept.append([object() for _ in range(count)])

def pinned(count, every):
    \"\"\"Small objects of which only every so many-th stays.\"\"\"
    made = [object() for _ in range(count)]
    kept.append(made[::every])
    del made
    gc.collect()

def arrays(count, megabytes):
    import numpy
    kept.extend(numpy.ones(megabytes << 17) for _ in range(count))

def maps(megabytes):
    area = mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, megabytes << 20, 4096):
        area[page] = 1
    kept.append(area)

wrong = []
def churn(number):
    \"\"\"Threads that allocate and free blocks, and check that what they wrote is still there.\"\"\"
    def work(seed):
        import random
        chance, blocks = random.Random(seed), []
        while not stop.is_set():
            size = chance.randrange(64, 60_000)
            block = libc.malloc(size)
            ctypes.memset(block, size % 251, size)
            blocks.append((block, size))
            if len(blocks) > 300:
                block, size = blocks.pop(chance.randrange(300))
                if ctypes.string_at(block, size) != bytes([size % 251]) * size:
                    wrong.append(size)
                libc.free(block)
    for seed in range(number):
        threading.Thread(target=work, args=(seed,), daemon=True).start()

def verdict():
    print(json.dumps(wrong), flush=True)

def look():
    print(json.dumps(neurogc.memory.breakdown()), flush=True)

def trim():
    print(json.dumps(neurogc.memory.trim()), flush=True)

print("ready", flush=True)
for line in lines():
    what, *numbers = line.split()
    globals()[what](*map(int, numbers))
    print("done", flush=True)
"""
)


class Program:
    """Carries out lines, and answers."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        said = []
        for line in iter(self.process.stdout.readline, "done\n"):
            assert line, "the program has ended"
            said.append(json.loads(line))
        return said[0] if said else None

    def look(self):
        found = self.tell("look")
        assert sum(found[part] for part in PARTS) == pytest.approx(found["rss"], rel=0.05), found
        assert found["explained"] >= 0.95, found
        return found


@pytest.fixture
def program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    started = []

    def begin(**settings):
        process = start(sys.executable, script, stdin=subprocess.PIPE, **settings)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return Program(process)

    yield begin
    for process in started:
        process.stdin.close()
        process.wait(30)


def test_memory_is_found_where_it_was_put(program):
    program = program()
    before = program.look()
    program.tell("blocks", 2000, 10_000)
    blocks = program.look()
    assert blocks["malloc_used"] - before["malloc_used"] == pytest.approx(20_000_000, rel=0.1)
    program.tell("blocks", 10 * MB, 3)
    large = program.look()
    assert large["malloc_mapped"] - blocks["malloc_mapped"] == pytest.approx(30 * MB, rel=0.05)
    assert large["largest"][0]["what"] == "malloc" and large["largest"][0]["resident"] >= 10 * MB
    program.tell("maps", 25)
    mapped = program.look()
    assert mapped["mapped"] - large["mapped"] == pytest.approx(25 * MB, rel=0.05)
    program.tell("objects", 1_000_000)
    objects = program.look()
    assert objects["python_used"] - mapped["python_used"] == pytest.approx(16_000_000, rel=0.1)
    small = {entry["size"]: entry["used"] for entry in objects["size_classes"]}
    assert small[16] >= 15_000_000
    assert objects["libraries"] > MB and objects["stacks"] > 10_000 and objects["malloc"] == "glibc"
    assert 0 < objects["ours"] < objects["rss"]


def test_arenas_of_threads_and_what_they_keep_free(program):
    program = program()
    program.tell("threads", 8, 20_000, 500, 50)
    found = program.look()
    assert found["malloc_arenas"] > 2
    # 8 threads with 10 MB each, of which a fiftieth stays. Glibc may give the end of an arena back by itself.
    assert found["malloc_free"] > 60 * MB and found["trimmable"] > 60 * MB, found
    others = [arena for arena in found["arenas"] if not arena["main"]]
    assert sum(arena["free"] + arena["top"] for arena in others) == found["malloc_arenas_free"]
    assert found["malloc_arenas_free"] > 55 * MB
    for arena in found["arenas"]:
        assert arena["used"] + arena["free"] + arena["top"] <= arena["resident"] <= arena["size"], arena


def test_free_memory_that_is_not_resident_does_not_count(program):
    program = program(NEUROGC_POLICY="observe")
    program.tell("threads", 4, 20_000, 500, 50)
    before = program.look()
    done = program.tell("trim")
    after = program.look()
    assert done["saved_bytes"] >= 0.8 * before["trimmable"], (before, done)
    assert after["trimmable"] <= 0.2 * before["trimmable"]
    assert before["rss"] - after["rss"] >= 0.8 * before["trimmable"]
    assert before["malloc_used"] == pytest.approx(after["malloc_used"], rel=0.1, abs=MB)
    assert ask(program.pid)["memory"]["trim"]["count"] == 1


def test_arenas_that_few_objects_pin(program):
    program = program()
    program.tell("pinned", 3_000_000, 2_000)
    found = program.look()
    assert found["python_free"] > 30 * MB, found
    assert found["python_sparse_arenas"] > 20 and found["python_sparse_free"] > 25 * MB
    assert found["python_sparse_arenas"] <= found["python_arenas"]


def test_arrays_of_numpy_are_blocks_of_malloc(program):
    pytest.importorskip("numpy")
    program = program()
    program.tell("arrays", 5, 16)
    found = program.look()
    assert found["malloc_mapped"] >= 79 * MB
    sites = [large["site"] for large in found["largest"][:5]]
    if ask(program.pid)["allocations"]["mode"] == "native":
        assert all("in arrays" in site or "in ones" in site for site in sites), sites


def test_the_status_report_and_the_command_tell_the_same(program):
    program = program()
    program.tell("blocks", 2000, 20_000)
    seen = ask(program.pid)["memory"]["breakdown"]
    assert seen["at_s"] > 0 and seen["malloc"] == "glibc"
    assert sum(seen[part] for part in PARTS) == pytest.approx(program.look()["rss"], rel=0.05)
    binary = os.environ.get("NEUROGC_BIN")
    if binary:
        command = [binary, "memory", str(program.pid)]
        text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "where " in text and "malloc in use" in text, text
        report = json.loads(subprocess.run([*command, "--json"], capture_output=True, timeout=60, check=True).stdout)
        assert report["memory"]["breakdown"]["malloc_used"] >= 40_000_000


SERVER = """
import asyncio, json, sys
import neurogc
rows = {}
async def serve(reader, writer):
    while line := await reader.readline():
        rows[len(rows)] = json.loads(line)
        with neurogc.request("add"):
            writer.write(json.dumps({"rows": len(rows), "last": rows[len(rows) - 1]}).encode() + b"\\n")
        await writer.drain()
async def client(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(2000):
        writer.write(json.dumps({"id": number, "items": ["x" * (number % 3000)] * 3}).encode() + b"\\n")
        await writer.drain()
        await reader.readline()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port) for _ in range(4)))
    print(json.dumps(neurogc.memory.breakdown()), flush=True)
asyncio.run(main())
"""


def test_a_service_is_explained(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    process = start(sys.executable, script)
    said, _ = process.communicate(timeout=120)
    found = json.loads(said)
    assert found["explained"] >= 0.95, found
    assert sum(found[part] for part in PARTS) == pytest.approx(found["rss"], rel=0.05)


@pytest.mark.race
def test_readings_and_trims_beside_threads_that_allocate(program):
    program = program()
    program.tell("churn", 4)
    for _ in range(10):
        found = program.tell("look")
        assert found["explained"] >= 0.9, found
        program.tell("trim")
    assert program.tell("verdict") == []


OTHER_MALLOCS = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")


@pytest.mark.skipif(not OTHER_MALLOCS, reason="neither jemalloc nor tcmalloc is installed here")
@pytest.mark.parametrize("library", OTHER_MALLOCS)
def test_another_malloc_is_left_alone(program, library):
    program = program(LD_PRELOAD=library)
    program.tell("blocks", 2000, 10_000)
    found = program.tell("look")
    assert (found["malloc"], found["malloc_used"], found["malloc_arenas"]) == ("unknown", 0, 0), found
    assert found["other"] >= 20_000_000 and found["python_used"] > MB
    assert sum(found[part] for part in PARTS) == pytest.approx(found["rss"], rel=0.05)
    assert any("malloc is not that of glibc" in reason for reason in ask(program.pid)["degraded"])


@pytest.mark.once
@pytest.mark.long(35)
def test_trim_is_an_order_of_a_policy_that_acts(program):
    program = program(NEUROGC_POLICY="gap")
    program.tell("threads", 8, 20_000, 500, 50)
    before = program.look()
    eventually(lambda: ask(program.pid)["memory"]["trim"]["count"] > 0, within=120, what="the order")
    assert ask(program.pid)["memory"]["trim"]["saved_bytes"] >= 0.8 * before["trimmable"]
    orders = ask(program.pid)["conduct"]["orders"]
    assert [order["reason"] for order in orders if order["what"] == "trim"], orders


@pytest.mark.once
@pytest.mark.long(45)
def test_an_observer_gives_nothing_back(program):
    program = program(NEUROGC_POLICY="observe")
    program.tell("threads", 8, 20_000, 500, 50)
    free = program.look()["trimmable"]
    # By then an acting policy has given it back, see above.
    eventually(lambda: ask(program.pid)["uptime_s"] > 45, within=90)
    assert ask(program.pid)["memory"]["trim"]["count"] == 0
    assert program.look()["trimmable"] >= 0.9 * free

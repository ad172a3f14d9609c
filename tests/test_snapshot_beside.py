"""Libraries with threads and memory of their own compute on, and rightly, while one snapshot follows the other."""

import json

import pytest
from snapshots import snap

pytestmark = pytest.mark.needs_agent

# Three threads do `work()`, which says whether its result is right. Meanwhile garbage is planted, each piece with a
# `data()` of the library in it, and each snapshot must find what was planted before it.
BESIDE = """
import json
stop, wrong, done = threading.Event(), [], [0, 0, 0]

def computing(number):
    try:
        while not stop.is_set():
            assert work(), "a wrong result"
            done[number] += 1
    except BaseException as error:
        wrong.append(repr(error))

def planted():
    return [weakref.ref(cycle(data=data())) for _ in range(50)]

def beside(seconds=2):
    kept = [cycle(data=data()) for _ in range(50)]
    assert work()
    threads = [threading.Thread(target=computing, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    end, flights, found = time.monotonic() + seconds, 0, 0
    while (time.monotonic() < end or min(done) < 3 or flights < 5) and not wrong:
        seeds = planted()
        freed = snapshot()
        assert freed >= 100, freed
        assert not any(seed() for seed in seeds), "planted garbage is still there"
        flights, found = flights + 1, found + freed
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and work(), wrong
    assert all(one.other.other is one and same(one.data) for one in kept)
    nothing_is_left()
    print(json.dumps({"flights": flights, "found": found, "done": sum(done), "failed": failed()}))
"""

NUMPY = """
import numpy
left = numpy.random.default_rng(1).random((300, 300))
product, spectrum, order = left @ left, numpy.fft.fft2(left), numpy.sort(left, axis=None)
def work():
    mine = left.copy()
    return (
        numpy.allclose(mine @ mine, product)
        and numpy.allclose(numpy.fft.fft2(mine), spectrum)
        and numpy.array_equal(numpy.sort(mine, axis=None), order)
    )
def data():
    # References from an array to its objects and to its base, which the collector does not see.
    return numpy.array([[], {}], dtype=object).reshape(1, 2)
def same(value):
    return value.tolist() == [[[], {}]]
# Beside the small ones, memory that a clone need not have.
large = numpy.ones(40_000_000)
"""

PANDAS = """
import numpy, pandas
rng = numpy.random.default_rng(1)
frame = pandas.DataFrame({"key": rng.integers(0, 50, 20_000), "value": rng.random(20_000)})
sums, merged = frame.groupby("key")["value"].sum(), frame.head(500).merge(frame, on="key").shape
def work():
    mine = frame.copy()
    return mine.groupby("key")["value"].sum().equals(sums) and mine.head(500).merge(mine, on="key").shape == merged
def data():
    return pandas.DataFrame({"a": [1, 2], "b": [[], {}]})
def same(value):
    return value["a"].tolist() == [1, 2] and value["b"].tolist() == [[], {}]
"""

TORCH = """
import torch
torch.manual_seed(1)
inputs, weights = torch.randn(200, 200), torch.randn(200, 200)
def gradient():
    mine = weights.clone().requires_grad_()
    (inputs @ mine).tanh().sum().backward()
    return mine.grad
expected = gradient()
def work():
    return torch.allclose(gradient(), expected, atol=1e-4)
def data():
    # A graph of autograd, whose nodes are objects of C++ with references to Python.
    mine = torch.ones(3, requires_grad=True)
    mine.register_hook(lambda value: value)
    return (mine * 2).sum()
def same(value):
    value.backward(retain_graph=True)
    return value.item() == 6
"""


def beside(library, code):
    """Takes snapshots beside a library; some of the flights are a few milliseconds only, so there are many."""
    pytest.importorskip(library, reason=f"{library} is not installed for this interpreter")
    seen = json.loads(snap(BESIDE + code + "beside()\n", timeout=180))
    assert seen["flights"] >= 5 and seen["found"] >= 100 * seen["flights"] and seen["done"] >= 9, seen
    assert seen["failed"].keys() <= {"missing", "late"} and seen["failed"].get("missing", 0) <= 1, seen


def test_beside_numpy():
    beside("numpy", NUMPY)


def test_beside_pandas():
    beside("pandas", PANDAS)


def test_beside_torch():
    beside("torch", TORCH)


def test_beside_uvloop():
    pytest.importorskip("uvloop", reason="uvloop is not installed for this interpreter")
    seen = json.loads(snap("""
import asyncio, json, uvloop
stop, wrong, done = threading.Event(), [], 0

async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line[::-1][1:] + b"\\n")
        await writer.drain()
    writer.close()

async def client(port, number):
    global done
    while not stop.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # A connection in a cycle, which only a collection closes.
        cycle(data=writer)
        for turn in range(20):
            writer.write(f"{number} {turn}\\n".encode())
            line = await reader.readline()
            if line != f"{number} {turn}"[::-1].encode() + b"\\n":
                wrong.append((number, turn, line))
            done += 1
        writer.close()
        await writer.wait_closed()

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, number) for number in range(8)), snapshots())
    server.close()

async def snapshots():
    # Another thread waits for the flights; the loop goes on meanwhile.
    loop, end = asyncio.get_running_loop(), time.monotonic() + 2
    flights = found = 0
    while (time.monotonic() < end or done < 1000 or flights < 5) and not wrong:
        seeds = [weakref.ref(cycle(data=loop.create_future())) for _ in range(50)]
        freed = await loop.run_in_executor(None, snapshot)
        assert freed >= 100, freed
        assert not any(seed() for seed in seeds), "planted garbage is still there"
        flights, found = flights + 1, found + freed
    stop.set()
    print(json.dumps({"flights": flights, "found": found, "done": done, "failed": failed()}))

runner = uvloop.new_event_loop()
asyncio.set_event_loop(runner)
runner.run_until_complete(main())
runner.close()
assert not wrong, wrong[:5]
nothing_is_left()
""", timeout=120))
    assert seen["flights"] >= 5 and seen["done"] >= 1000 and seen["failed"].keys() <= {"late"}, seen

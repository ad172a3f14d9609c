"""Programs to attach to, one per kind: attach_targets.py KIND STOP.

Each prints "ready", checks its own work until the file STOP exists, and then prints OK or what was wrong. Those that only
wait end with SIGTERM.
"""

import gc
import os
import signal
import sys
import threading
import time

KINDS = {}
wrong = []


class Over(BaseException):
    """The program is to end."""


def kind(function):
    KINDS[function.__name__] = function
    return function


def ready():
    print("ready", flush=True)


def is_over():
    return os.path.exists(sys.argv[2])


def expect(what, got, wanted):
    if got != wanted:
        wrong.append(f"{what}: {got!r} instead of {wanted!r}")


def takes_at_least(what, seconds, function):
    began = time.monotonic()
    function()
    took = time.monotonic() - began
    if took < seconds:
        wrong.append(f"{what} took {took} s only")


def mix(times, number=12345):
    for _ in range(times):
        number = (number * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return number


def repeat(what, function):
    """The same result each time."""
    wanted = function()
    ready()
    while not is_over():
        expect(what, function(), wanted)


@kind
def busy():
    repeat("numbers", lambda: (mix(5000), sum(i * 0.1 for i in range(3000))))


@kind
def sleep():
    ready()
    time.sleep(1000)


@kind
def sleep_short():
    ready()
    while not is_over():
        takes_at_least("a sleep", 0.02, lambda: time.sleep(0.02))


@kind
def accept():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        ready()
        server.accept()


@kind
def asyncio_idle():
    import asyncio

    async def main():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        ready()
        await server.serve_forever()

    asyncio.run(main())


@kind
def asyncio_tick():
    import asyncio

    async def main():
        ready()
        while not is_over():
            began = time.monotonic()
            await asyncio.sleep(0.005)
            if time.monotonic() - began < 0.004:
                wrong.append("a sleep ended early")

    asyncio.run(main())


@kind
def lock():
    held = threading.Lock()
    held.acquire()
    ready()
    held.acquire()


def eight_threads(main_works):
    wanted = mix(2000)

    def work():
        while not is_over():
            expect("numbers", mix(2000), wanted)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    ready()
    if main_works:
        work()
    for thread in threads:
        thread.join()


@kind
def threads8():
    eight_threads(main_works=True)


@kind
def threads8_join():
    eight_threads(main_works=False)


@kind
def queue_timeout():
    import queue

    waiting = queue.Queue()

    def wait():
        try:
            waiting.get(timeout=0.05)
        except queue.Empty:
            return
        wrong.append("an item that nothing has put there")

    ready()
    while not is_over():
        takes_at_least("a wait", 0.045, wait)


@kind
def c_zlib():
    import zlib

    data = bytes((i * 7919 >> 3) & 255 for i in range(300_000)) * 4
    repeat("compressed", lambda: zlib.crc32(zlib.compress(data)))


@kind
def numpy():
    import numpy

    matrix = numpy.arange(250_000, dtype=float).reshape(500, 500) / 1e3
    repeat("product", lambda: float((matrix @ matrix).sum()))


@kind
def c_hash_nogil():
    import hashlib

    data = bytes(range(256)) * 400_000
    repeat("hash", lambda: hashlib.sha256(data).hexdigest())


@kind
def c_regex_gil():
    import re

    pattern = re.compile(r"(a|a)*b")
    repeat("match", lambda: pattern.match("a" * 18))


@kind
def forks_check():
    ready()
    while not is_over():
        child = os.fork()
        if child == 0:
            mix(3000)
            os._exit(0)
        expect("the end of a child", os.waitpid(child, 0)[1], 0)


@kind
def vforks():
    import subprocess

    repeat("output", lambda: subprocess.run(["echo", "hi"], capture_output=True).stdout)


@kind
def gc_heavy():
    class Node:
        alive = 0

        def __init__(self):
            Node.alive += 1
            self.me = self
            self.held = [self, {}]

        def __del__(self):
            Node.alive -= 1

    gc.set_threshold(200, 5, 5)
    ready()
    while not is_over():
        for _ in range(2000):
            Node()
    gc.collect()
    expect("objects alive", Node.alive, 0)


@kind
def malloc_heavy():
    import json

    data = {str(i): [i, str(i) * 10, {"k": i / 7}] for i in range(400)}
    text = json.dumps(data)
    repeat("text", lambda: json.dumps(json.loads(text)))


@kind
def itimer():
    count = 0

    def tick(*_):
        nonlocal count
        count += 1

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    wanted = mix(2000)
    ready()
    while not is_over():
        expect("numbers", mix(2000), wanted)
        time.sleep(0.003)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if count < 20:
        wrong.append("signals were lost")


@kind
def imports():
    import importlib

    names = ["decimal", "sqlite3", "xml.etree.ElementTree", "email.message", "csv"]
    ready()
    while not is_over():
        for name in names:
            for loaded in [it for it in sys.modules if it.split(".")[0] in ("csv", "email", "xml")]:
                del sys.modules[loaded]
            importlib.import_module(name)


def end(*_):
    raise Over


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    try:
        KINDS[sys.argv[1]]()
    except Over:
        pass
    print("OK" if not wrong else f"{len(wrong)} wrong: {wrong[:2]}", flush=True)

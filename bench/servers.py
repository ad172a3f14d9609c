"""Servers with and without the agent, in turns: what a light load costs, and what a service that never rests gets.

    python bench/servers.py [--load light|saturated] [--seconds 2] [--pairs 30] [--only "gunicorn gthread"] [--save]

Needs gunicorn, uvicorn and hypercorn in this interpreter, and the built package (make build).

With `--load light` each server answers 100 requests a second, about a tenth of what it could do. A server with the agent and
one without it run at the same time and are asked in turns, for some seconds each. The processor time is that of all processes
of the server in its own turns, from the kernel's account of each thread.

With `--load saturated` each process of the server has a large heap, and eight clients ask again at once. Memory is the sum of
the most that each process of the server had resident, without the clones that walk the heap.

With `--save` the figures go into the table of docs/benchmarks.md, see bench/results.py.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import results  # noqa: E402
from injection import environment  # noqa: E402

# Each server's command, after the interpreter.
SERVERS = {
    "uvicorn": "-m uvicorn servers:asgi --port {port} --log-level warning --no-access-log",
    "uvicorn, 4 workers": "-m uvicorn servers:asgi --port {port} --log-level warning --no-access-log --workers 4",
    "hypercorn": "-m hypercorn servers:asgi --bind 127.0.0.1:{port} --log-level error",
    "gunicorn sync": "-m gunicorn servers:wsgi --bind 127.0.0.1:{port} --log-level warning",
    "gunicorn sync, 4 workers": "-m gunicorn servers:wsgi --bind 127.0.0.1:{port} --log-level warning --workers 4",
    "gunicorn gthread": "-m gunicorn servers:wsgi --bind 127.0.0.1:{port} --log-level warning --threads 8",
}


# What a service keeps for good, in records of three tracked objects, and what it keeps for some requests.
RECORDS = int(os.environ.get("SERVERS_RECORDS", "0"))
STORE = [{"number": number, "values": [number], "more": [number]} for number in range(RECORDS)]
KEPT: collections.deque = collections.deque(maxlen=100)


class Node:
    """A part of an answer, in a cycle with the next one."""


def work() -> bytes:
    """A quarter of a millisecond of Python, with some garbage; more of it where there is a store."""
    rows = [{"number": number, "text": str(number)} for number in range(1500)]
    nodes = [Node() for _ in range(200 if STORE else 1)]
    for one, other in zip(nodes, nodes[1:] + nodes[:1]):
        one.other, one.data = other, [1]
    if STORE:
        KEPT.append(nodes[0])
    return json.dumps(rows[:5]).encode()


def wsgi(_environ, start_response):
    """The application of gunicorn."""
    body = work()
    start_response("200 OK", [("content-type", "application/json"), ("content-length", str(len(body)))])
    return [body]


async def asgi(scope, _receive, send):
    """The application of uvicorn and hypercorn."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    body = work()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    try:
        children = [(thread / "children").read_text().split() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        # It has just ended, as the clones that walk a heap do.
        return found
    for child in itertools.chain.from_iterable(children):
        found += tree(int(child))
    return found


def processor_seconds(pid: int) -> tuple[float, float]:
    """What a process and its descendants have used so far, and the part of it that the agent's threads have."""
    total = own = 0
    for each in tree(pid):
        for thread in Path(f"/proc/{each}/task").iterdir():
            used = int((thread / "schedstat").read_text().split()[0])
            total += used
            own += used if (thread / "comm").read_text().startswith("neurogc") else 0
    return total / 1e9, own / 1e9


def ask(port: int) -> None:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()


def requests(port: int, rate: float, seconds: float) -> int:
    """Asks so often for so long; says how many were answered."""
    done = []
    began = time.perf_counter()

    def client(number: int) -> None:
        at = began + number / rate
        while at < began + seconds:
            time.sleep(max(0.0, at - time.perf_counter()))
            ask(port)
            done.append(1)
            at += 4 / rate

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done)


class Server:
    """A running server; a context manager, so that it always ends."""

    def __init__(self, words: str, policy: str | None, records: int):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        env = environment(policy) | {"SERVERS_RECORDS": str(records)}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(HERE)]))
        command = [sys.executable, *words.format(port=self.port).split()]
        self.process = subprocess.Popen(command, env=env, cwd=HERE)

    def __enter__(self) -> Server:
        until = time.monotonic() + 60
        while True:
            try:
                ask(self.port)
                return self
            except OSError:
                if time.monotonic() > until:
                    self.__exit__()
                    raise
                time.sleep(0.05)

    def __exit__(self, *error) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def peak(self, pids: list[int]) -> int:
        """The most that these processes have ever had in memory, each by itself."""
        there = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        lines = [line for pid in there for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def light(words: str, policies: list, seconds: float, pairs: int) -> list:
    """Pairs of turns: milliseconds of processor time for each request, and the part that the agent's threads have used."""

    def turn(server: Server) -> tuple[float, float]:
        before = processor_seconds(server.process.pid)
        answered = requests(server.port, RATE, seconds)
        used = processor_seconds(server.process.pid)
        return tuple((after - first) / answered * 1000 for first, after in zip(before, used))

    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(Server(words, policy, 0)) for policy in policies]
        for server in running:
            requests(server.port, RATE, 3.0)
        return [[turn(server) for server in running] for _ in range(pairs)]


def saturated(words: str, policies: list, seconds: float, pairs: int) -> list:
    """Pairs of what `saturate` gives, of servers that run one after the other."""
    return [[saturate(words, policy, seconds) for policy in policies] for _ in range(pairs)]


def saturate(words: str, policy: str | None, seconds: float) -> tuple[float, float, float]:
    """Requests a second, the 99.9th percentile of what they took in milliseconds, and the most memory in megabytes."""
    with Server(words, policy, SATURATED_RECORDS) as server:
        # Those that are there from the beginning to the end: not the clones that walk their heaps.
        time.sleep(1.0)
        pids = tree(server.process.pid)
        until, times = time.monotonic() + seconds, []

        def client() -> None:
            while (began := time.monotonic()) < until:
                ask(server.port)
                times.append(time.monotonic() - began)

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.sort()
        return len(times) / seconds, times[int(len(times) * 0.999)] * 1000, server.peak(pids) / 1e6


def show_light(name: str, pairs: list) -> list[str]:
    ratios = [ours / alone for (alone, _), (ours, _) in pairs]
    own = sum(own for _, (_, own) in pairs) / sum(ours - own for _, (ours, own) in pairs)
    alone, ours = (statistics.median(total for total, _ in side) for side in zip(*pairs))
    low, ratio, high = statistics.quantiles(ratios)
    ratio = f"{ratio:.3f} ({low:.3f}–{high:.3f})"
    print(f"{name:26} {alone:.3f} ms → {ours:.3f} ms   {ratio}   agent's threads {100 * own:.2f} %", flush=True)
    return [name, results.bold(f"{100 * own:.1f} %", own > 0.02), ratio]


def show_saturated(name: str, pairs: list) -> list[str]:
    ratios = [[ours / alone for alone, ours in zip(*pair)] for pair in pairs]
    rate, tail, memory = (statistics.median(column) for column in zip(*ratios))
    print(f"{name:26} requests a second {rate:.2f}   p99.9 {tail:.2f}   peak memory {memory:.2f}   {pairs}", flush=True)
    return [name, f"{memory:.2f}", results.bold(f"{tail:.2f}", tail > 0.3), results.bold(f"{rate:.2f}", rate < 0.98)]


RATE = 100.0
SATURATED_RECORDS = 150_000
LOADS = {
    "light": (light, 2.0, 30, show_light, ["server", "agent's threads", "processor time for each request"]),
    "saturated": (saturated, 8.0, 3, show_saturated, ["server", "peak RSS", "p99.9", "requests a second"]),
}


def main() -> None:
    """Measures all servers in turns and prints a table of ratios, with the agent to without it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=LOADS, default="light")
    parser.add_argument("--seconds", type=float, help="of each turn; 2 of a light one, 8 of a saturated one")
    parser.add_argument("--pairs", type=int, help="of turns; 30 light ones, 3 saturated ones")
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--only", action="append", choices=SERVERS, help="a server; may be given several times")
    parser.add_argument("--save", action="store_true", help="also write the table of docs/benchmarks.md")
    words = parser.parse_args()
    run, seconds, turns, show, columns = LOADS[words.load]
    seconds, turns = words.seconds or seconds, words.pairs or turns
    rows = [show(name, run(SERVERS[name], [None, words.policy], seconds, turns)) for name in words.only or SERVERS]
    if words.save:
        measured = results.today(f"medians of {turns} pairs of turns of {seconds:g} s")
        command = f"python bench/servers.py --load {words.load} --seconds {seconds:g} --pairs {turns}"
        results.save(f"servers-{words.load}", command, columns, rows, keys=1, measured=measured)


if __name__ == "__main__":
    main()

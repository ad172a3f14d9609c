"""The load generator of bench/serve.py: one process of its own, keep-alive connections, figures as JSON on stdout.

    python bench/load.py open --port P --rate 200 --seconds 20       Poisson arrivals, whatever the service does
    python bench/load.py closed --port P --connections 4 --seconds 5     as fast as the service answers

In the open loop a latency counts from the moment at which the request was meant to be sent, so a service that stands
still is charged for every request that should have been sent in the meantime. The output says how late the generator
itself was.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import re
import select
import socket
import time

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
DRAIN_S = 30.0


class Connection:
    """A keep-alive connection with at most one request under way."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.intended = 0.0
        self._answer = b""

    def send(self, number: int, intended: float) -> None:
        """Asks; a request is far smaller than a socket's buffer."""
        self.intended = intended
        self._answer = b""
        self.socket.sendall(b"GET /item/%d HTTP/1.1\r\nHost: bench\r\n\r\n" % number)

    def receive(self) -> bool:
        """Takes what has come; whether the answer is complete. Anything but a good answer is an OSError."""
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionResetError("the service closed a connection under a request")
        self._answer += piece
        head = self._answer.find(b"\r\n\r\n")
        if head < 0:
            return False
        if not self._answer.startswith(b"HTTP/1.1 200"):
            raise OSError(f"the service answered {self._answer[:80]!r}")
        length = LENGTH.search(self._answer, 0, head + 2)
        if length is None:
            raise OSError("the service answered without a length")
        return len(self._answer) >= head + 4 + int(length[1])


class Pool:
    """Connections, idle and busy. It grows when all are busy: an open loop never waits for a free one."""

    def __init__(self, port: int, size: int):
        self._port = port
        self._epoll = select.epoll()
        self._all: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self.busy = 0
        self.errors: list[str] = []
        for _ in range(size):
            self._idle.append(self._open())

    def _open(self) -> Connection:
        connection = Connection(self._port)
        self._all[connection.socket.fileno()] = connection
        self._epoll.register(connection.socket, select.EPOLLIN)
        return connection

    def size(self) -> int:
        """How many connections there are by now."""
        return len(self._all)

    def send(self, number: int, intended: float) -> None:
        """Asks on an idle connection, or on a new one."""
        connection = self._idle.pop() if self._idle else self._open()
        connection.send(number, intended)
        self.busy += 1

    def answered(self, timeout: float) -> list[float]:
        """Waits at most so long; the intended times of the requests that were answered."""
        # epoll itself rounds timeouts up to milliseconds, select does not.
        if not select.select([self._epoll], [], [], max(0.0, timeout))[0]:
            return []
        done = []
        for number, _ in self._epoll.poll(0):
            connection = self._all[number]
            try:
                if not connection.receive():
                    continue
                done.append(connection.intended)
                self._idle.append(connection)
            except BlockingIOError:
                continue
            except OSError as error:
                self.errors.append(str(error))
                self._epoll.unregister(connection.socket)
                del self._all[number]
                connection.socket.close()
            self.busy -= 1
            if len(self.errors) > 100:
                raise SystemExit(f"load: too many errors, the last: {self.errors[-1]}")
        return done


def open_loop(options: argparse.Namespace) -> dict:
    """Poisson arrivals; what was meant to be sent before the warm-up was over is not counted."""
    chance = random.Random(options.seed)
    pool = Pool(options.port, options.connections)
    began = time.monotonic() + 0.05
    counted = began + options.warm_up
    end = counted + options.seconds
    latencies: list[float] = []
    lateness: list[float] = []
    number = 0
    coming = began
    while True:
        now = time.monotonic()
        while coming <= now and coming < end:
            pool.send(number, coming)
            if coming >= counted:
                lateness.append(now - coming)
            number += 1
            coming += chance.expovariate(options.rate)
            now = time.monotonic()
        if coming >= end and (pool.busy == 0 or now > end + DRAIN_S):
            break
        for intended in pool.answered(coming - now if coming < end else end + DRAIN_S - now):
            if intended >= counted:
                latencies.append(time.monotonic() - intended)
    return {
        "since": counted,
        "until": end,
        "latencies_ms": [round(each * 1000, 4) for each in latencies],
        "lateness_ms": percentiles([each * 1000 for each in lateness]),
        "sent": len(lateness),
        "unanswered": pool.busy,
        "errors": pool.errors,
        "connections": pool.size(),
    }


def closed_loop(options: argparse.Namespace) -> dict:
    """Each connection asks again as soon as it is answered."""
    pool = Pool(options.port, options.connections)
    counted = time.monotonic() + options.warm_up
    end = counted + options.seconds
    answers = number = 0
    for number in range(options.connections):
        pool.send(number, 0.0)
    while (now := time.monotonic()) < end:
        for _ in pool.answered(end - now):
            number += 1
            pool.send(number, 0.0)
            answers += now >= counted
    return {"since": counted, "until": end, "per_second": answers / options.seconds, "errors": pool.errors}


def percentiles(values: list[float]) -> dict[str, float]:
    """The usual ones, of all values, by sorting."""
    ordered = sorted(values) or [float("nan")]
    last = len(ordered) - 1
    at = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in at.items()}


def main() -> None:
    """Drives the load and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loop", choices=["open", "closed"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, help="requests a second, in the open loop")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds before that which are not counted")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    gc.disable()
    with contextlib.suppress(OSError):
        # Where it may, it goes before the service's other threads on its core: a late send would be charged to the service.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print(json.dumps(open_loop(options) if options.loop == "open" else closed_loop(options)))


if __name__ == "__main__":
    main()

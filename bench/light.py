"""What the agent costs a lightly loaded server: processor time for each request, with and without it.

    python bench/light.py [--seconds 8] [--pairs 3] [--rate 100] [--only uvicorn,sync] [--json FILE]

Needs gunicorn, uvicorn and hypercorn in this interpreter, and the built package (make build). Each server answers requests
of about a millisecond, a tenth of what it could do. Runs with and without the agent take turns. The processor time is that of
all processes of the server, from the kernel's account of each thread. Two equal runs differ by ten percent and more; what the
agent's own threads use is exact, and what it adds to the program's threads is a few microseconds a request.
"""

from __future__ import annotations

import argparse
import http.client
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

from trial import environment  # noqa: E402

# Each server's command, after the interpreter.
SERVERS = {
    "uvicorn": "-m uvicorn light:asgi --port {port} --log-level warning --no-access-log",
    "uvicorn, 4 workers": "-m uvicorn light:asgi --port {port} --log-level warning --no-access-log --workers 4",
    "hypercorn": "-m hypercorn light:asgi --bind 127.0.0.1:{port} --log-level warning",
    "gunicorn sync": "-m gunicorn light:wsgi --bind 127.0.0.1:{port} --log-level warning",
    "gunicorn sync, 4 workers": "-m gunicorn light:wsgi --bind 127.0.0.1:{port} --log-level warning --workers 4",
    "gunicorn gthread": "-m gunicorn light:wsgi --bind 127.0.0.1:{port} --log-level warning --threads 8",
}


def work() -> bytes:
    """About a millisecond of Python, with some garbage."""
    rows = [{"number": number, "text": str(number)} for number in range(1500)]
    ring: list = []
    ring.append(ring)
    return json.dumps(rows[:5]).encode()


def wsgi(_environ, start_response):
    """The application of gunicorn."""
    body = work()
    start_response("200 OK", [("content-type", "application/json"), ("content-length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    """The application of uvicorn and hypercorn."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = work()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
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


def run(words: str, policy: str | None, rate: float, seconds: float) -> tuple[float, float]:
    """Milliseconds of processor time for each request, and the part of them that the agent's threads have used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = environment(policy, {})
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(HERE)]))
    process = subprocess.Popen([sys.executable, *words.format(port=port).split()], env=env, cwd=HERE)
    try:
        until = time.monotonic() + 20
        while True:
            try:
                ask(port)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        requests(port, rate, 3.0)
        before = processor_seconds(process.pid)
        answered = requests(port, rate, seconds)
        used = processor_seconds(process.pid)
        return tuple((after - first) / answered * 1000 for first, after in zip(before, used))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main() -> None:
    """Measures all servers in turns and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--only", help="names of servers, with commas between them")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    chosen = {name: line for name, line in SERVERS.items() if not words.only or name in words.only.split(",")}
    results = {}
    for name, line in chosen.items():
        pairs = [
            (run(line, None, words.rate, words.seconds), run(line, words.policy, words.rate, words.seconds))
            for _ in range(words.pairs)
        ]
        ratios = [ours / alone for (alone, _), (ours, _) in pairs]
        own = statistics.median(own / (ours - own) for _, (ours, own) in pairs)
        results[name] = {"ms": pairs, "ratio": statistics.median(ratios), "own": own}
        alone, ours = (statistics.median(total for total, _ in side) for side in zip(*pairs))
        spread = f"{min(ratios):.3f}–{max(ratios):.3f}"
        ratio = f"{statistics.median(ratios):.3f} ({spread})"
        print(f"{name:26} {alone:.3f} ms → {ours:.3f} ms   {ratio}   agent's threads {100 * own:.2f} %", flush=True)
    if words.json:
        words.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

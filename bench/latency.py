"""What an independent client measures beside what a status report says: p50, p95, p99 and p99.9, by server and by trouble.

    python bench/latency.py [--only uvicorn] [--trouble gc] [--seconds 20] [--json FILE]
    python bench/latency.py --save FILE… [--measured WORDS]
                                                puts the results of such runs into the table of docs/benchmarks.md; WORDS say
                                                when and where they were measured, if not today on this machine

The client is an open loop (crates/load, example `open_loop`): a latency counts from the moment at which the request was meant
to be sent. Needs the built package (make build), the built example and the servers in this interpreter. A server that is not
installed is left out.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import results  # noqa: E402

SERVERS = {
    "uvicorn uvloop": ("uvicorn uvloop", "-m uvicorn latency:asgi --port {port} --loop uvloop --log-level error --no-access-log"),
    "uvicorn asyncio": ("uvicorn", "-m uvicorn latency:asgi --port {port} --loop asyncio --log-level error --no-access-log"),
    "hypercorn": ("hypercorn", "-m hypercorn latency:asgi --bind 127.0.0.1:{port} --log-level error"),
    "granian": ("granian", "-m granian latency:asgi --interface asgi --port {port} --log-level error --backpressure 2000"),
    "gunicorn sync": ("gunicorn", "-m gunicorn latency:wsgi --bind 127.0.0.1:{port} --log-level error"),
    "gunicorn gthread": ("gunicorn", "-m gunicorn latency:wsgi --bind 127.0.0.1:{port} --log-level error --threads 8"),
    "gunicorn uvicorn": ("gunicorn uvicorn_worker", "-m gunicorn latency:asgi -k uvicorn_worker.UvicornWorker --bind 127.0.0.1:{port} --log-level error"),
    "flask": ("flask", "latency.py serve-flask {port}"),
}

# The rate of requests, and what goes on beside them. A request takes about four milliseconds of one processor.
TROUBLES = {"calm": 40, "saturated": 0, "gc": 40, "hog": 20}
WORK_MS = 4.0
QUANTILES = ("p50_ms", "p95_ms", "p99_ms", "p999_ms")


def work() -> bytes:
    """Some milliseconds of Python."""
    until = time.thread_time() + WORK_MS / 1e3
    while time.thread_time() < until:
        sum(range(500))
    return b"done"


async def asgi(scope, receive, send):
    """The application of ASGI servers."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = work()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": body})


def wsgi(_environ, start_response):
    """The application of WSGI servers."""
    body = work()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


def collecting() -> None:
    """A large heap that is collected each second."""
    heap = [[number] for number in range(int(os.environ.get("LATENCY_OBJECTS", "2500000")))]
    while heap:
        time.sleep(1)
        gc.collect()


def hogging() -> None:
    """A thread that never gives way by itself."""
    while True:
        sum(range(10_000))


_BESIDE = {"gc": collecting, "hog": hogging}.get(os.environ.get("LATENCY_TROUBLE", ""))
if _BESIDE is not None and __name__ != "__main__":
    threading.Thread(target=_BESIDE, daemon=True).start()


def serve_flask(port: int) -> None:
    """Flask's own server."""
    import logging

    from flask import Flask

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask("latency")
    app.route("/")(work)
    if _BESIDE is not None:
        threading.Thread(target=_BESIDE, daemon=True).start()
    app.run(port=port, threaded=True)


def status_of(pid: int) -> list[dict]:
    """The reports of a process and of its children that serve requests."""
    sys.path.insert(0, str(ROOT / "tests"))
    from observed import ask

    reports = []
    for each in tree(pid):
        try:
            reports.append(ask(each))
        except (OSError, AssertionError):
            pass
    return reports


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    try:
        children = [(thread / "children").read_text().split() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return found
    for child in (child for group in children for child in group):
        found += tree(int(child))
    return found


def listens(port: int) -> bool:
    """Whether the service takes connections. No request is sent: the service would count it and the client would not."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
        return True
    except OSError:
        return False


def client(port: int, rate: float, seconds: float) -> dict:
    """What the client measures."""
    example = ROOT / "target" / "fast" / "examples" / "open_loop"
    words = [str(example), str(port), str(rate), str(seconds), "/"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def trial(server: str, trouble: str, seconds: float) -> dict:
    """One server under one trouble."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "LATENCY_TROUBLE": trouble, "PYTHONDONTWRITEBYTECODE": "1", "NEUROGC_POLICY": "observe"}
    env["PYTHONPATH"] = str(HERE)
    words = [str(ROOT / "target" / "fast" / "neurogc"), "run", "--", sys.executable, *SERVERS[server][1].format(port=port).split()]
    process = subprocess.Popen(words, env=env, cwd=HERE, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not listens(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit(f"{server} takes no connections")
            time.sleep(0.1)
        # Some servers listen before their workers have started, and the heap of `gc` takes a while.
        time.sleep(4 if trouble == "gc" else 2)
        # 85 % of what a request's work leaves room for.
        measured = client(port, TROUBLES[trouble] or 0.85e3 / (WORK_MS + 0.4), seconds)
        time.sleep(0.5)
        serving = max(status_of(process.pid), key=lambda report: report["requests"]["count"])
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
    requests = serving["requests"]
    return {
        "server": server,
        "trouble": trouble,
        "client": {name: measured["latency"][name] for name in QUANTILES},
        "status": {name: requests[name] for name in QUANTILES},
        "wait": requests["wait"],
        "service": requests["service"],
        "waits": requests["waits"],
        "max": [measured["latency"].get("max_ms"), requests["max_ms"]],
        "count": [measured["latency"]["count"], requests["count"]],
        "client_late_p99_ms": measured["late"]["p99_ms"],
        "failures": measured["failures"] + measured["unanswered"],
        "gc": {name: serving["gc"][name] for name in ("in_request", "in_gap", "in_gap_arrivals", "arrivals")},
    }


def line(result: dict) -> str:
    """A row of the table: client / status (ratio) for each quantile."""
    cells = []
    for name in QUANTILES:
        seen, told = result["client"][name], result["status"][name]
        cells.append(f"{seen:8.1f} {told:8.1f} {told / seen if seen else 0:5.2f}")
    waits = result["waits"]
    return (f"{result['server']:17} {result['trouble']:9} " + " | ".join(cells)
            + f" | {waits['measured']}/{waits['estimated']}/{waits['unknown']}")


COLUMNS = ["server", "trouble", "p50", "p95", "p99", "p99.9"]


def rows(found: list[dict]) -> list[list[str]]:
    """Status ÷ client, the client's milliseconds in brackets, and bold what is off by more than 15 %."""
    made = []
    for result in found:
        cells = [result["server"], result["trouble"]]
        for name in QUANTILES:
            seen = result["client"][name]
            ratio = result["status"][name] / seen
            cells.append(f"{results.bold(f'{ratio:.2f}', not 0.85 <= ratio <= 1.15)} ({seen:.1f})")
        made.append(cells)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(SERVERS))
    parser.add_argument("--trouble", action="append", choices=list(TROUBLES))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--save", type=Path, nargs="+")
    parser.add_argument("--measured")
    options = parser.parse_args()
    if options.save:
        for file in options.save:
            measured = options.measured or results.today(at=file.stat().st_mtime)
            results.save("latency", "python bench/latency.py", COLUMNS, rows(json.loads(file.read_text())), keys=2,
                         measured=measured)
        return
    print("server            trouble     p50: client status ratio |  p95                   |  p99                   |"
          "  p99.9                 | waits measured/estimated/unknown")
    found = []
    for server in options.only or SERVERS:
        if any(importlib.util.find_spec(need) is None for need in SERVERS[server][0].split()):
            continue
        for trouble in options.trouble or TROUBLES:
            found.append(trial(server, trouble, options.seconds))
            print(line(found[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve-flask"]:
        serve_flask(int(sys.argv[2]))
    else:
        main()

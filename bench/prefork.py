"""Pre-fork servers: what workers share with their master, and how often CPython collects everything in them.

    python bench/prefork.py [--records 300000] [--requests 10000] [--rounds 3] [--save]

Needs gunicorn and the built package (make build). gunicorn loads an application with a large heap before it forks its
workers (`preload_app`), which then serve the requests of the scenario `large-heap`. Four ways take turns:

    cpython          CPython left alone
    cpython, frozen  the same, with `gc.freeze()` in gunicorn's hook before the fork, as people do by hand
    gap, thawed      policy gap, with the freezing of the inherited heap undone in the worker
    gap              policy gap, as it is
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "scenarios")]

import large_heap  # noqa: E402
import results  # noqa: E402
from injection import environment  # noqa: E402
from stage import collections  # noqa: E402

WAYS = ("cpython", "cpython, frozen", "gap, thawed", "gap")
WORKERS = 2
# Long enough for a policy to see that start-up is over, and for the last garbage to be collected.
REST_S = 4.0
MB = 1 << 20
COLUMNS = ["CPython", "way", "USS of a worker: idle → after load", "all processes (PSS)",
           "full collections: in requests, in gaps", "all pauses"]


def serve(way: str, port: int, records: int, folder: Path) -> None:
    """gunicorn with the application in its master; each worker writes its figures when it ends."""
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):
        def load_config(self):
            for name, value in {
                "bind": f"127.0.0.1:{port}",
                "workers": WORKERS,
                "preload_app": True,
                "loglevel": "warning",
                "pre_fork": before_fork,
                "post_fork": begin,
                "worker_exit": end,
            }.items():
                self.cfg.set(name, value)

        def load(self):
            return application(large_heap.live_heap(records))

    def before_fork(server, worker):
        if way == "cpython, frozen":
            gc.freeze()

    def begin(server, worker):
        if way == "gap, thawed":
            gc.unfreeze()
        worker.frozen = gc.get_freeze_count()
        collections.clear()

    def end(server, worker):
        figures = {"frozen": worker.frozen, **collections.summary()}
        (folder / f"{worker.pid}.json").write_text(json.dumps(figures))

    Server().run()


def application(records):
    """The WSGI application: the requests of `large-heap`, without the computing."""
    sessions = [None] * large_heap.SESSIONS

    def app(environ, start_response):
        collections.in_flight = 1
        number = int(environ["PATH_INFO"].rpartition("/")[2] or 0)
        scratch = large_heap.tree(large_heap.REQUEST_RECORDS, number)
        sessions[number % large_heap.SESSIONS] = large_heap.tree(large_heap.SESSION_RECORDS, number)
        total = len(scratch.fields["links"])
        for step in range(large_heap.READ_RECORDS):
            total += records[(number + step * 7919) % len(records)].fields["number"]
        start_response("200 OK", [("Content-Type", "text/plain")])
        collections.in_flight = 0
        return [str(total).encode()]

    return app


def memory(pid: int) -> dict[str, int]:
    """Bytes that a process has for itself (uss), and with its share of what it shares (pss)."""
    found = dict.fromkeys(("pss", "uss"), 0)
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            found["pss"] = int(rest.split()[0]) * 1024
        elif name in ("Private_Clean", "Private_Dirty"):
            found["uss"] += int(rest.split()[0]) * 1024
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has forked."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ask(port: int, number: int) -> None:
    """One request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{number}")
    connection.getresponse().read()
    connection.close()


def load(port: int, requests: int) -> float:
    """Sends requests, as many at a time as there are workers, and gives how long they took."""
    began = time.monotonic()
    share = requests // WORKERS
    clients = [
        threading.Thread(target=lambda at=at: [ask(port, at * share + index) for index in range(share)])
        for at in range(WORKERS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return time.monotonic() - began


def trial(way: str, records: int, requests: int) -> dict:
    """One server: started, left in peace, loaded, left in peace, and measured."""
    policy = "gap" if way.startswith("gap") else None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--serve", way, "--port", str(port), "--records", str(records)]
        master = subprocess.Popen([*words, "--folder", folder], env=environment(policy), start_new_session=True)
        try:
            for _ in range(600):
                try:
                    ask(port, 0)
                    break
                except OSError:
                    time.sleep(0.1)
            time.sleep(REST_S)
            before = [memory(pid) for pid in children(master.pid)]
            seconds = load(port, requests)
            time.sleep(REST_S / 2)
            workers = children(master.pid)
            after = [memory(pid) for pid in workers]
            whole = sum(memory(pid)["pss"] for pid in [master.pid, *workers])
        finally:
            master.send_signal(signal.SIGTERM)
            master.wait(60)
        figures = [json.loads((Path(folder) / f"{pid}.json").read_text()) for pid in workers]
    full = [each["full"] for each in figures]
    return {
        "uss_before_mb": statistics.mean(each["uss"] for each in before) / MB,
        "uss_mb": statistics.mean(each["uss"] for each in after) / MB,
        "pss_mb": statistics.mean(each["pss"] for each in after) / MB,
        "whole_mb": whole / MB,
        "frozen": statistics.mean(each["frozen"] for each in figures),
        "full": sum(each["count"] for each in full) * 10_000 / requests,
        "full_in_request": sum(each["in_request"] for each in full) * 10_000 / requests,
        "full_ms": sum(each["total_ms"] for each in full) * 10_000 / requests,
        "full_max_ms": max(each["max_ms"] for each in full),
        "pause_ms": sum(each[kind]["total_ms"] for each in figures for kind in ("young", "middle", "full"))
        * 10_000 / requests,
        "per_second": requests / seconds,
    }


def main() -> None:
    """Measures all ways in turn and prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="also write the table of docs/benchmarks.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        sys.argv[1:] = []
        serve(options.serve, options.port, options.records, options.folder)
        return
    measured: dict[str, list[dict]] = {way: [] for way in WAYS}
    for index in range(options.rounds):
        for way in WAYS[index % len(WAYS) :] + WAYS[: index % len(WAYS)]:
            measured[way].append(trial(way, options.records, options.requests))
            print(f"  {way}: {measured[way][-1]}", file=sys.stderr, flush=True)
    print(f"CPython {platform.python_version()}, {options.records} records, {WORKERS} workers")
    print("| | USS of a worker, idle → after load | PSS of a worker | all processes | full collections, in a request"
          " | their pauses, all / longest | all pauses | requests/s |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for way, trials in measured.items():
        mid = {name: statistics.median(each[name] for each in trials) for name in trials[0]}
        rows.append([platform.python_version(), way, f"{mid['uss_before_mb']:.0f} → {mid['uss_mb']:.0f} MB",
                     f"{mid['whole_mb']:.0f} MB",
                     f"{mid['full_in_request']:.0f}, {mid['full'] - mid['full_in_request']:.0f}",
                     f"{mid['pause_ms'] / 1000:.1f} s"])
        print(f"| {way} | {mid['uss_before_mb']:.0f} → {mid['uss_mb']:.0f} MB | {mid['pss_mb']:.0f} MB"
              f" | {mid['whole_mb']:.0f} MB | {mid['full']:.0f}, {mid['full_in_request']:.0f}"
              f" | {mid['full_ms']:.0f} / {mid['full_max_ms']:.0f} ms"
              f" | {mid['pause_ms']:.0f} ms | {mid['per_second']:.0f} |")
    if options.save:
        measured = results.today(f"medians of {options.rounds} rounds")
        results.save("prefork", "python bench/prefork.py", COLUMNS, rows, keys=2, measured=measured)


if __name__ == "__main__":
    main()

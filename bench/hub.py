"""What a hub bears and how quick it is: the figures of docs/hub.md, measured on this machine.

    python bench/hub.py [PART…] [--agents 200] [--events 50] [--seconds 60] [--json FILE]
    python bench/hub.py fleet remote-write [--fleet 2000] [--senders 20000] [--seconds 60] [--save]

Parts: load, fleet, remote-write, latency, week, kill, host, hostile; all where none is named. Needs `make build` and
`cargo build --profile fast -p neurogc-hub --example agents`. Bars are printed beside the figures, not enforced. `fleet` and
`remote-write` take about --seconds and half a minute each; --save puts their figures into the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fast"
os.environ.setdefault("NEUROGC_BIN", str(TARGET / "neurogc"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

import results  # noqa: E402
from hub import Console, Hub  # noqa: E402

AGENTS = TARGET / "examples" / "agents"
TICK = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1 << 20


def on_core(core: int):
    """What puts a process that is being started on one core."""
    cores = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cores[core % len(cores)]})


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_rss(pid: int) -> int:
    """The most memory that a process has had."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def rounded(values: list[float]) -> dict:
    """The figures that people read."""
    ordered = sorted(values)
    at = lambda share: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)  # noqa: E731
    return {"median": at(0.5), "p95": at(0.95), "max": at(1.0), "count": len(ordered)}


def load(options) -> dict:
    """Many agents at once, and a browser that watches: processor time, memory and losses of the hub."""
    with tempfile.TemporaryDirectory() as folder:
        sockets = Path(folder, "sockets")
        sockets.mkdir(mode=0o700)
        words = [AGENTS, "follow", sockets, options.agents, options.events, options.seconds + 15]
        agents = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, preexec_fn=on_core(1))
        assert agents.stdout.readline() == "ready\n"
        with Hub(Path(folder, "data"), "--sockets", str(sockets), preexec_fn=on_core(0)) as hub:
            while hub.get("hub")["processes"]["live"] < options.agents:
                time.sleep(0.1)
            with hub.live() as browser:
                one = hub.get("processes")["processes"][0]["id"]
                browser.send({"type": "watch", "processes": True, "ids": [one]})
                time.sleep(3)
                before, began = cpu_seconds(hub.process.pid), time.monotonic()
                messages = 0
                while time.monotonic() < began + options.seconds:
                    browser.receive()
                    messages += 1
                share = 100 * (cpu_seconds(hub.process.pid) - before) / (time.monotonic() - began)
            told = hub.get("hub")
            out, _ = agents.communicate()
            sent = json.loads(out)
            last = hub.get("hub")
            return {
                "agents": options.agents,
                "events_per_second": options.agents * options.events,
                "cpu_percent_of_a_core (bar 25)": round(share, 1),
                "peak_rss_mb (bar 150)": round(peak_rss(hub.process.pid) / MEGABYTE, 1),
                "events_sent": sent["events"],
                "events_taken": last["ingest"]["events"],
                "lost (bar 0)": sent["events"] - last["ingest"]["events"],
                "rows_dropped (bar 0)": last["store"]["dropped"],
                "messages_skipped": told["clients"]["skipped"],
                "messages_to_the_browser": messages,
                "store_mb": round(last["store"]["bytes"] / MEGABYTE, 1),
            }


def real_figures(folder: Path) -> tuple[Path, int, int]:
    """The report of a real program in a file, how many series its metrics are, and the bytes of its status."""
    with Hub(folder / "real") as hub, Console(NEUROGC_POLICY="observe", NEUROGC_SERVICE="real") as program:
        found = hub.wait_for(program.pid)
        program.do("[gc.collect() for _ in range(20)], requests(200, 0.002)")
        time.sleep(3)
        status = json.dumps(hub.get(f"processes/{found['id']}")["status"])
        page = hub.ask("GET", "/metrics")[1].decode()
    file = folder / "figures.json"
    file.write_text(status)
    return file, sum('service="real"' in line for line in page.splitlines()), len(status)


def pushing(hub: Hub, figures: Path, count: int, first: int, every: float, events: int, seconds: int):
    """Starts agents that post."""
    words = ["push", f"127.0.0.1:{hub.port}", hub.report_token, figures, count, first, every, events, seconds]
    agents = subprocess.Popen([str(word) for word in (AGENTS, *words)], stdout=subprocess.PIPE, text=True)
    assert agents.stdout.readline() == "ready\n"
    return agents


def wait_for_all(hub: Hub, count: int, seconds: float) -> int:
    """How many processes have reported, once all have or the time is over."""
    until = time.monotonic() + seconds
    while (known := hub.get("hub")["processes"]["known"]) < count and time.monotonic() < until:
        time.sleep(0.5)
    return known


def fleet(options) -> dict:
    """Agents that post once a second, each on a connection of its own, to one hub: what each of them costs."""
    with tempfile.TemporaryDirectory() as folder:
        figures, _, _ = real_figures(Path(folder))
        with Hub(Path(folder, "data"), "--no-local") as hub:
            agents = pushing(hub, figures, options.fleet, 0, 1, 5, options.seconds + 20)
            known = wait_for_all(hub, options.fleet, 15)
            pid, began = hub.process.pid, time.monotonic()
            before, taken = cpu_seconds(pid), hub.get("hub")["ingest"]["reports"]
            time.sleep(options.seconds)
            told = hub.get("hub")
            cpu, took = cpu_seconds(pid) - before, time.monotonic() - began
            reports = told["ingest"]["reports"] - taken
            sent = json.loads(agents.communicate()[0])
            last = hub.get("hub")
    return {
        "agents": options.fleet,
        "known": known,
        "live": told["processes"]["live"],
        "reports_per_second": round(reports / took, 1),
        "hub_cpu_percent_of_a_core": round(100 * cpu / took, 1),
        "cpu_us_per_report": round(1e6 * cpu / max(1, reports), 1),
        "rss_mb": round(told["rss"] / MEGABYTE, 1),
        "peak_rss_mb": round(last["rss"] / MEGABYTE, 1),
        "rss_kb_per_agent": round(told["rss"] / 1024 / options.fleet, 1),
        "bytes_per_report": round(sent["bytes"] / max(1, sent["reports"])),
        "lag_ms": {name: sent[f"lag_{name}_ms"] for name in ("p50", "p99", "max")},
        "reports_refused (bar 0)": sent["failed"],
        "reports_lost (bar 0)": max(0, sent["reports"] - last["ingest"]["reports"]),
        "rows_dropped (bar 0)": last["store"]["dropped"],
        "store_bytes_per_agent_and_second": round(last["store"]["bytes"] / options.fleet / max(1.0, took)),
    }


def remote_write(options) -> dict:
    """Many senders behind several hubs without a store, which write their metrics every 15 s to a receiver that keeps nothing."""
    hubs_needed = -(-options.senders // options.per_hub)
    lasts = options.seconds + 40
    with tempfile.TemporaryDirectory() as folder:
        figures, series, _ = real_figures(Path(folder))
        receiver = subprocess.Popen([str(AGENTS), "receive", str(lasts + 10)], stdout=subprocess.PIPE, text=True)
        port = int(receiver.stdout.readline())
        server = f"http://127.0.0.1:{port}"
        hubs, senders = [], []
        try:
            for number in range(hubs_needed):
                hub = Hub(Path(folder, f"hub-{number}"), "--no-local", "--remote-write", f"{server}/api/v1/write",
                          "--history", f"prometheus:{server}")
                hubs.append(hub)
                count = min(options.per_hub, options.senders - number * options.per_hub)
                senders.append(pushing(hub, figures, count, number * options.per_hub, options.every, 0, lasts))
            until = time.monotonic() + options.every + 10
            for number, hub in enumerate(hubs):
                count = min(options.per_hub, options.senders - number * options.per_hub)
                wait_for_all(hub, count, until - time.monotonic())
            before, began = sum(cpu_seconds(hub.process.pid) for hub in hubs), time.monotonic()
            taken = sum(hub.get("hub")["ingest"]["reports"] for hub in hubs)
            time.sleep(options.seconds)
            told = [hub.get("hub") for hub in hubs]
            took = time.monotonic() - began
            cpu = sum(cpu_seconds(hub.process.pid) for hub in hubs) - before
            reports = sum(one["ingest"]["reports"] for one in told) - taken
            posted = [json.loads(one.communicate()[0]) for one in senders]
            got = json.loads(receiver.communicate()[0])
        finally:
            for hub in hubs:
                hub.stop()
            for process in [*senders, receiver]:
                if process.poll() is None:
                    process.kill()
    # What came in the first seconds is of few senders: whole rounds count.
    rounds = max(1, got["rounds"])
    known = sum(one["processes"]["known"] for one in told)
    return {
        "senders": options.senders,
        "hubs": hubs_needed,
        "known": known,
        "reports_per_second": round(reports / took, 1),
        "hubs_cpu_percent_of_a_core": round(100 * cpu / took, 1),
        "cpu_ms_per_sender_and_minute": round(1e3 * cpu / took * 60 / options.senders, 2),
        "rss_mb_of_a_hub": round(max(one["rss"] for one in told) / MEGABYTE, 1),
        "rss_kb_per_sender": round(sum(one["rss"] for one in told) / 1024 / max(1, known), 1),
        "series_per_sender": series,
        "rounds": got["rounds"],
        "written_bytes_per_sender_and_round": round(got["bytes"] / rounds * hubs_needed / max(1, known)),
        "round_ms": {"p50": got["round_p50_ms"], "max (bar 12000)": got["round_max_ms"]},
        "bytes_per_report": round(sum(one["bytes"] for one in posted) / max(1, sum(one["reports"] for one in posted))),
        "lag_ms": {"p50": max(one["lag_p50_ms"] for one in posted), "p99": max(one["lag_p99_ms"] for one in posted),
                   "max": max(one["lag_max_ms"] for one in posted)},
        "reports_refused (bar 0)": sum(one["failed"] for one in posted),
    }


COLUMNS = ["load", "agents", "reports a second", "hub CPU, % of a core", "CPU for each report", "memory for each agent",
           "bytes of a report", "lag p50 / p99", "lost"]


def save(figures: dict, options) -> None:
    """Puts the figures of a fleet into the table of docs/benchmarks.md."""
    rows = []
    if one := figures.get("fleet"):
        lost = one["reports_refused (bar 0)"] + one["reports_lost (bar 0)"] + one["rows_dropped (bar 0)"]
        rows.append(["one hub", f"{one['agents']:,}", f"{one['reports_per_second']:,.0f}", f"{one['hub_cpu_percent_of_a_core']}",
                     f"{one['cpu_us_per_report']:.0f} µs", f"{one['rss_kb_per_agent']:.0f} KB", f"{one['bytes_per_report']:,}",
                     f"{one['lag_ms']['p50']:.1f} / {one['lag_ms']['p99']:.0f} ms", results.bold(str(lost), lost > 0)])
    if one := figures.get("remote-write"):
        lost = one["reports_refused (bar 0)"]
        each = 1e6 * one["hubs_cpu_percent_of_a_core"] / 100 / max(1, one["reports_per_second"])
        rows.append([f"{one['hubs']} hubs, remote write", f"{one['senders']:,}", f"{one['reports_per_second']:,.0f}",
                     f"{one['hubs_cpu_percent_of_a_core']}", f"{each:.0f} µs, writing included",
                     f"{one['rss_kb_per_sender']:.0f} KB", f"{one['bytes_per_report']:,}",
                     f"{one['lag_ms']['p50']:.1f} / {one['lag_ms']['p99']:.0f} ms", results.bold(str(lost), lost > 0)])
    command = "python bench/hub.py fleet remote-write --save"
    results.save("fleet", command, COLUMNS, rows, keys=2, measured=results.today(f"{options.seconds} s each"))


def latency(_options) -> dict:
    """From the end of a collection in a real program to a browser that is told of it."""
    took = []
    with tempfile.TemporaryDirectory() as folder, Hub(folder) as hub, Console(NEUROGC_POLICY="observe") as program:
        found = hub.wait_for(program.pid)
        with hub.live() as browser:
            browser.send({"type": "watch", "ids": [found["id"]]})
            browser.until(lambda message: message["type"] == "sample")
            for _ in range(100):
                time.sleep(random.uniform(0, 0.2))
                ended = float(program.do("(gc.collect(), time.time())[1]"))
                browser.until(lambda message: message["type"] == "events")
                took.append(1000 * (time.time() - ended))
    return {"ms (bar 250)": rounded(took)}


def varint(value: int) -> bytes:
    """Seven bits a byte, low ones first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def block(count: int, step_ns: int) -> tuple[bytes, float]:
    """A block of a trace with so many collections, and the longest of them in milliseconds."""
    pauses = [random.randrange(50_000, 3_000_000) for _ in range(count)]
    records = bytearray()
    for pause in pauses:
        records += b"\3" + varint(step_ns << 1) + b"\x10" + varint(pause) + b"\0\0"
    return b"NGCB" + struct.pack("<II", len(records), zlib.crc32(records)) + records, max(pauses) / 1e6


def fill_week(path: Path, series: int) -> None:
    """Seven days of one process at one sample and five events a second, as a hub keeps them."""
    now = int(time.time()) * 1000
    db = sqlite3.connect(path)
    db.execute("INSERT INTO processes (id, host, pid, command, python, neurogc, policy, started, seen) "
               "VALUES ('week-1-1', 'week', 1, 'x', 'x', 'x', 'gap', ?, ?)", (now - 7 * 86_400_000, now))
    (key,), (layout,) = db.execute("SELECT key FROM processes"), db.execute("SELECT max(id) FROM layouts")
    key, layout = key[0], layout[0]
    latency = b"".join(varint(1 if place else 200) + varint(random.randrange(1, 2000)) for place in range(60))
    figures = struct.pack(f"<{series}f", *(random.random() * 1000 for _ in range(series)))
    for step, keep in [(1, 7200), (10, 86_400), (60, 604_800)]:
        first = now - keep * 1000
        rows = ((key, step, first // 1000 // step * step * 1000 + n * step * 1000, layout, figures, latency)
                for n in range(1, keep // step))
        db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)", rows)
    for minute in range(7 * 1440):
        first = now - 7 * 86_400_000 + minute * 60_000
        blocks, longest = block(300, 199_000_000)
        db.execute("INSERT INTO events (process, first, last, epoch, longest, notes, count, blocks) VALUES (?,?,?,?,?,?,?,?)",
                   (key, first, first + 60_000, first, longest, 0, 300, blocks))
    db.commit()
    db.close()


def week(_options) -> dict:
    """Charts of seven days of one process."""
    with tempfile.TemporaryDirectory() as folder:
        with Hub(folder, "--no-local") as hub:
            series = len(hub.get("series")["series"])
        fill_week(Path(folder, "hub.db"), series)
        figures = {}
        with Hub(folder, "--no-local") as hub:
            for name, path in {
                "all series, 7d": "series?range=7d",
                "all series, 7d, 2000 points": "series?range=7d&points=2000",
                "four series, 7d": "series?range=7d&names=requests.p50_ms,requests.p99_ms,memory.rss,cpu.percent",
                "all series, 1d": "series?range=1d",
                "all series, 1h": "series?range=1h",
                "longest 2000 events, 7d": "events?range=7d",
            }.items():
                took = []
                for _ in range(20):
                    began = time.monotonic()
                    answer = hub.get(f"processes/week-1-1/{path}")
                    took.append(1000 * (time.monotonic() - began))
                points = len(answer.get("t", answer.get("events", [])))
                figures[f"{name}: ms (bar 300)"] = {**rounded(took), "points": points}
        return figures


def kill(_options) -> dict:
    """How much of what a browser had seen is not there after `kill -9`."""
    lost = []
    with tempfile.TemporaryDirectory() as folder, Console() as program, Hub(folder) as hub:
        found = hub.wait_for(program.pid)
        for _ in range(10):
            with hub.live() as browser:
                browser.send({"type": "watch", "ids": [found["id"]]})
                for _ in range(3):
                    last = browser.until(lambda message: message["type"] == "sample")["t"]
                time.sleep(random.uniform(0, 0.9))
                hub.stop(signal.SIGKILL)
            hub.start()
            kept = hub.get(f"processes/{found['id']}/series?range=5m&names=memory.rss")["t"]
            lost.append((last - max(t for t in kept if t <= last)) / 1000)
    return {"seconds_lost (bar 1)": rounded(lost)}


def host(_options) -> dict:
    """Processor time of an idle and of a busy program, alone and followed."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in {"idle": "time.sleep(20)", "200 requests a second": "requests(4000, 0.005)"}.items():
            for followed in (False, True):
                with Console(NEUROGC_POLICY="observe") as program:
                    hub = Hub(folder) if followed else None
                    if hub:
                        hub.wait_for(program.pid)
                    before, began = cpu_seconds(program.pid), time.monotonic()
                    program.do(work)
                    share = 100 * (cpu_seconds(program.pid) - before) / (time.monotonic() - began)
                    figures[f"{name}, {'followed' if followed else 'alone'}: cpu_percent"] = round(share, 2)
                    if hub:
                        hub.stop()
    return figures


def frame(report: dict) -> bytes:
    """A report as agents post it, without events."""
    text = json.dumps(report).encode()
    return struct.pack("<II", 4 + len(text), len(text)) + text


def absurd(number: int, round_: int) -> list[dict]:
    """Reports of one hostile process: each breaks another rule."""
    own = {"host": "hostile", "pid": number, "started_unix_ms": 5, "key": str(number), "at_s": round_ + 1.0}
    orders = [{"what": "x", "reason": "y" * 20, "count": 2**64 - 1}] * 2000
    heavy = [
        {"degraded": ["z" * 900] * 240},
        {"command": "\N{SNOWMAN}" * 80_000, "policy": "q" * 200_000},
        {"degraded": ["" for _ in range(200_000)]},
        {"conduct": {"orders": orders}},
        {"memory": {"rss": 2**64 - 1, "limit": 2**64 - 1}, "cpu": {"percent": 1e308}, "requests": {"count": 2**64 - 1}},
        {f"key-{name}": name for name in range(5000)},
        {"children": [{"command": "c" * 1000}] * 200},
    ]
    status = heavy[(number + round_) % len(heavy)]
    buckets = [[index, 2**64 - 1] for index in range(870)]
    figures = {"buckets": buckets if number % 3 else [], "total_ms": 1e308}
    return [
        {**own, "sample": {"status": status, "latency": figures, "stalls": figures}},
        {**own, "key": "of another", "at_s": round_ + 1.5},
        {**own, "at_s": -1e300},
        {**own, "started_unix_ms": 10**6 * (round_ + 1) + number, "pid": number + 10**6},
    ]


def hostile(options) -> dict:
    """5,000 processes that report what no agent does: huge texts, absurd numbers, changing names, thousands of keys."""
    with tempfile.TemporaryDirectory() as folder, Hub(folder, "--no-local") as hub:
        headers = {"Authorization": f"Bearer {hub.report_token}"}
        answers: dict[int, int] = {}
        connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
        began, sent = time.monotonic(), 0
        for round_ in range(options.rounds):
            for number in range(options.hostile):
                for report in absurd(number, round_):
                    body = frame(report)
                    connection.request("POST", "/api/v1/ingest", body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    answers[answer.status] = answers.get(answer.status, 0) + 1
                    sent += len(body)
                if number % 1000 == 0:
                    # What people and programs ask meanwhile.
                    hub.get("processes")
                    hub.ask("GET", "/metrics")
        took = time.monotonic() - began
        rows = [len(hub.ask("GET", path)[1]) for path in ("/metrics",)]
        told = hub.get("hub")
        return {
            "processes": told["processes"]["known"],
            "reports": sum(answers.values()),
            "sent_mb": round(sent / MEGABYTE),
            "seconds": round(took),
            "answers_by_status": answers,
            "peak_rss_mb (bar 1024)": round(peak_rss(hub.process.pid) / MEGABYTE, 1),
            "rss_mb": round(told["rss"] / MEGABYTE, 1),
            "used": told["budget"]["used"],
            "dropped": told["budget"]["dropped"],
            "impostors": told["ingest"]["impostors"],
            "refused": told["ingest"]["refused"],
            "metrics_page_mb": round(rows[0] / MEGABYTE, 1),
        }


PARTS = {"hostile": hostile, "load": load, "fleet": fleet, "remote-write": remote_write, "latency": latency, "week": week,
         "kill": kill, "host": host}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[[], *PARTS], default=[])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--fleet", type=int, default=2000, help="agents of the part fleet")
    parser.add_argument("--senders", type=int, default=20_000, help="agents of the part remote-write")
    parser.add_argument("--per-hub", type=int, default=5000, help="agents of one hub in the part remote-write")
    parser.add_argument("--every", type=float, default=15, help="seconds between the reports of a sender of remote-write")
    parser.add_argument("--save", action="store_true", help="put figures of fleet and remote-write into bench/results")
    parser.add_argument("--hostile", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = {}
    for part in options.parts or PARTS:
        figures[part] = PARTS[part](options)
        print(f"{part}: {PARTS[part].__doc__.strip()}")
        for name, value in figures[part].items():
            print(f"  {name}: {value}")
    if options.save:
        save(figures, options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

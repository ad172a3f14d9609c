"""A hub whose history is in Prometheus or VictoriaMetrics: it shows what another hub has written there."""

import http.server
import json
import ssl
import threading
import time
import urllib.parse
from contextlib import ExitStack

import pytest
from hub import Console, Hub
from observed import binary, eventually
from servers import SERVERS, free_port, server

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")

# Three messages of remote write, which come every 15 s, and what a server needs to show them.
ROUNDS_S = 75


class Pair:
    """A hub that keeps and writes, and a second one that only asks the server."""

    def __init__(self, stack, name, folder, port):
        self.port = port
        write = ("--remote-write", f"http://127.0.0.1:{port}/api/v1/write")
        self.writes = stack.enter_context(Hub(folder / f"{name}-writes", *write))
        ask = ("--no-local", "--history", f"prometheus:http://127.0.0.1:{port}")
        self.asks = stack.enter_context(Hub(folder / f"{name}-asks", *ask))


@pytest.fixture(scope="module")
def program():
    with Console(NEUROGC_SERVICE="shop \"1\" \\ a|b", NEUROGC_POLICY="observe") as console:
        yield console


@pytest.fixture(scope="module")
def pairs(tmp_path_factory, program):
    """Both servers at once: most of the time is waiting."""
    folder = tmp_path_factory.mktemp("history")
    with ExitStack() as stack:
        found = {}
        for name in SERVERS:
            (folder / name).mkdir()
            found[name] = Pair(stack, name, folder, stack.enter_context(server(name, folder / name)))
        for pair in found.values():
            pair.id = pair.writes.wait_for(program.pid)["id"]
        until = time.monotonic() + ROUNDS_S
        while time.monotonic() < until:
            program.do("requests(40, 0.02), [gc.collect() for _ in range(5)], gc.collect(0), None")
        yield found


@pytest.fixture(params=SERVERS)
def pair(request, pairs):
    return pairs[request.param]


def series(hub, id_, *names, range_="10m", **more):
    query = urllib.parse.urlencode({"range": range_, "names": ",".join(names), **more})
    answer = hub.get(f"processes/{id_}/series?{query}")
    return answer, {name: [value for value in answer["series"][name] if value is not None] for name in names}


def mean(values):
    return sum(values) / len(values)


def test_both_hubs_show_the_same_history(pair):
    gauges = ["memory.rss", "threads", "fds"]
    rates = ["requests.rps", "gc.full", "gc.young", "gc.paused_ms"]
    times = ["requests.p50_ms", "requests.p99_ms", "requests.max_ms", "gil.busy_percent", "gc.max_ms"]
    names = [*gauges, *rates, *times]
    _, own = series(pair.writes, pair.id, *names)
    answer, asked = eventually(lambda: (it := series(pair.asks, pair.id, *names)) and len(it[0]["t"]) >= 3 and it, within=60)
    assert answer["step_ms"] == 15_000 and all(t % 15_000 == 0 for t in answer["t"])
    assert answer["to_ms"] - answer["t"][-1] < 60_000
    # The first step is of a program that was starting: its first report is written, and makes no row yet.
    for name in gauges:
        low, high = min(own[name]), max(own[name])
        assert all(0.99 * low <= value <= 1.01 * high for value in asked[name][1:]), (name, asked[name], low, high)
    for name in rates:
        busy = [value for value in own[name] if value > 0]
        assert max(asked[name]) == pytest.approx(mean(busy), rel=0.6), (name, asked[name], mean(busy))
    # Histograms have bounds at 10, 25 and 50 ms, and a busy machine is late.
    for name in ("requests.p50_ms", "requests.p99_ms"):
        assert 10 <= asked[name][-1] <= 5 * max(own[name]), (name, asked[name], own[name])
    assert 10 <= asked["requests.max_ms"][-1] and 0 < asked["gc.max_ms"][-1]
    assert 0 <= mean(asked["gil.busy_percent"]) <= 100


def test_all_series_and_long_ranges_are_told(pair):
    names = [one["name"] for one in pair.asks.get("series")["series"]]
    answer, found = series(pair.asks, pair.id, *names)
    missing = {name for name in names if not found[name]}
    # Not measured in this program, or not among the metrics.
    assert {name for name in missing if not name.startswith(("conduct.", "gpu.", "census.", "memory.limit"))} <= {
        "memory.pss", "memory.uss", "allocations.rate", "allocations.live"}, missing
    assert all(len(values) <= len(answer["t"]) for values in found.values())
    week, _ = series(pair.asks, pair.id, "memory.rss", range_="7d")
    assert week["step_ms"] % 15_000 == 0 and week["step_ms"] >= 604_800_000 / 600 - 15_000


def test_latencies_of_a_process_and_of_its_service(pair, program):
    heat = pair.asks.get(f"processes/{pair.id}/latency?range=10m")
    count = sum(count for step in heat["counts"] for _, count in step)
    own = pair.writes.get(f"processes/{pair.id}/latency?range=10m")
    known = sum(count for step in own["counts"] for _, count in step)
    assert 0.4 * known < count <= 1.2 * known, (count, known)
    service = urllib.parse.quote(pair.writes.get(f"processes/{pair.id}")["service"], safe="")
    merged = pair.asks.get(f"services/{service}/latency?range=10m")
    assert sum(count for step in merged["counts"] for _, count in step) == pytest.approx(count, rel=0.3, abs=20)


def test_processes_of_other_hubs_are_listed(pair, program):
    facts = ("id", "host", "pid", "command", "service", "role", "python", "neurogc", "policy", "started_ms")
    of = lambda one: {name: one[name] for name in facts}  # noqa: E731
    own = pair.writes.get(f"processes/{pair.id}")
    listed = [one for one in pair.asks.get("processes?gone=true")["processes"] if one["id"] == pair.id]
    assert [of(one) for one in listed] == [of(own)]
    assert (listed[0]["state"], listed[0]["source"]) == ("live", "history")
    one = pair.asks.get(f"processes/{pair.id}")
    assert of(one) == of(own) and one["status"] is None
    # A browser that shows the list is told of it.
    with pair.asks.live() as browser:
        browser.send({"type": "watch", "processes": True, "ids": []})
        browser.until(lambda it: it["type"] == "processes" and any(one["id"] == pair.id for one in it["processes"]))
    status, answer = pair.asks.ask("GET", "/api/v1/processes/no-such-1-1/series")
    assert status == 404, answer


def test_what_a_database_of_metrics_cannot_hold_is_said(pair):
    for part in ("events", "census"):
        assert "Prometheus" in pair.asks.get(f"processes/{pair.id}/{part}?range=1h")["not_kept"]
        assert pair.writes.get(f"processes/{pair.id}/{part}?range=1h")["not_kept"] is None
    store = pair.asks.get("hub")["store"]
    assert (store["kind"], store["path"]) == ("prometheus", f"127.0.0.1:{pair.port}")
    assert any("Heap dumps and recordings" in text for text in store["not_kept"])
    assert pair.writes.get("hub")["store"]["kind"] == "sqlite"


def test_two_processes_are_compared(pair):
    answer = pair.asks.get(f"compare?a={pair.id}&b={pair.id}&range=10m&names=memory.rss,requests.p50_ms")
    assert len(answer["t"]) >= 3 and answer["whole"]["memory.rss"]["diff"] == 0
    assert answer["whole"]["requests.p50_ms"]["a"] > 5


def test_a_stateless_hub_keeps_nothing(pair):
    assert not (pair.asks.data / "hub.db").exists()


def test_a_server_that_is_away_is_told_of(tmp_path):
    port = free_port()
    with Hub(tmp_path, "--no-local", "--history", f"prometheus:http://127.0.0.1:{port}") as hub:
        assert hub.get("processes")["processes"] == []
        for path in ("processes?gone=true", "processes/some-1-1", "processes/some-1-1/series"):
            status, answer = hub.ask("GET", f"/api/v1/{path}")
            text = answer["error"]["message"]
            assert status == 503 and f"127.0.0.1:{port}" in text and "refused" in text, answer
        assert f"127.0.0.1:{port}" in hub.get("hub")["store"]["trouble"]


class Asked(http.server.ThreadingHTTPServer):
    """Answers every question with the same bytes, over TLS, and keeps the questions."""

    def __init__(self, certificate, answer):
        came = self.came = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, form))
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.parametrize("answer, told", [
    (json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode(), None),
    (b"<html>sign in</html>", "not that of Prometheus"),
    (b'{"status":"success","data":{"result":[' + b'{"metric":{}},' * 3_000_000 + b"]}}", "longer than 32 MB"),
], ids=["nothing", "nonsense", "long"])
def test_the_server_is_asked_over_tls_with_headers(answer, told, tmp_path, certificate):
    with Asked(certificate, answer) as asked:
        variables = {"SSL_CERT_FILE": certificate / "cert.pem", "NEUROGC_HISTORY_HEADERS": "Authorization=Bearer%20secret"}
        where = f"prometheus:https://localhost:{asked.server_port}/tenant"
        with Hub(tmp_path, "--no-local", "--history", where, variables=variables) as hub:
            status, said = hub.ask("GET", "/api/v1/processes?gone=true")
            report = json.dumps(hub.get("hub"))
        asked.shutdown()
    assert "secret" not in report
    assert status == (503 if told else 200), said
    assert told is None or told in said["error"]["message"], said
    path, headers, form = asked.came[0]
    assert path.startswith("/tenant/api/v1/query") and headers["authorization"] == "Bearer secret"
    assert "neurogc_" in form["query"][0]

"""`neurogc hub` with real agents: they come and go, are drawn, told of and told what to do."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from hub import Console, Hub
from observed import ask, binary, environment, eventually
from websocket import Refused

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.once,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with Hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture(scope="module")
def program(hub):
    with Console(NEUROGC_POLICY="observe") as program:
        hub.wait_for(program.pid)
        yield program


def test_a_program_is_found_and_its_figures_are_those_of_its_agent(hub, program):
    found = hub.wait_for(program.pid)
    status = ask(program.pid)
    assert (found["state"], found["source"], found["policy"]) == ("live", "socket", "observe")
    assert (found["command"], found["python"]) == (status["command"], status["python"])
    one = hub.get(f"processes/{found['id']}")
    assert one["status"]["memory"]["rss"] == pytest.approx(status["memory"]["rss"], rel=0.1)
    assert found["latest"]["memory.rss"] == pytest.approx(status["memory"]["rss"], rel=0.1)


def followed_by(pid):
    """The sockets of a process by which connections are open, as the kernel lists them."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    connected = "03"
    return {line[7] for line in lines if len(line) == 8 and line[5] == connected and line[7].endswith(f"/{pid}.sock")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_program_that_becomes_another_user_is_followed_once(hub):
    def full():
        events = hub.get(f"processes/{found['id']}/events")["events"]
        return [event for event in events if event.get("what") == "full"]

    with Console(NEUROGC_POLICY="observe") as program:
        found = hub.wait_for(program.pid)
        program.do("os.setuid(65534)")
        eventually(lambda: os.path.exists(f"/tmp/neurogc-65534/{program.pid}.sock"), what="its second socket")
        # The hub looks for sockets once a second. Then it follows by the new one, and its old connection is closed.
        new = f"/tmp/neurogc-65534/{program.pid}.sock"
        eventually(lambda: followed_by(program.pid) == {new}, what="followers by the new socket alone")
        program.do("[gc.collect() for _ in range(10)] and None")
        eventually(lambda: len(full()) >= 10)
        now = hub.find(program.pid)["seen_ms"]
        hub.wait_for(program.pid, lambda process: process["seen_ms"] > now + 1500)
        assert len(full()) == 10
        # It can still be asked, by its new socket.
        status, said = hub.ask("POST", f"/api/v1/processes/{found['id']}/policy", {"policy": "cpython"})
        assert (status, said) == (200, {"before": "observe", "after": "cpython"})


def test_requests_become_percentiles(hub, program):
    program.do("requests(20, 0.02)")
    found = hub.wait_for(program.pid, lambda process: (process["latest"] or {}).get("requests.p50_ms"))
    assert 18 < found["latest"]["requests.p50_ms"] < 40
    path = f"processes/{found['id']}/series?range=1m&names=requests.p50_ms,requests.rps"

    def drawn():
        chart = hub.get(path)
        return [value for value in chart["series"]["requests.p50_ms"] if value]

    assert 18 < eventually(drawn)[0] < 40


def test_a_collection_reaches_a_browser_at_once(hub, program):
    found = hub.wait_for(program.pid)
    with hub.live() as browser:
        assert browser.receive()["type"] == "hello"
        browser.send({"type": "watch", "processes": True, "ids": [found["id"]]})
        assert browser.until(lambda message: message["type"] == "processes")
        sample = browser.until(lambda message: message["type"] == "sample")
        assert (sample["id"], sample["values"]["memory.rss"] > 0) == (found["id"], True)
        asked = time.time()
        program.do("gc.collect()")
        is_full = lambda event: event["kind"] == "collection" and event["what"] == "full"  # noqa: E731
        told = browser.until(lambda message: message["type"] == "events" and any(map(is_full, message["events"])))
        assert time.time() - asked < 2
        full = next(filter(is_full, told["events"]))
        assert full["t"] / 1000 == pytest.approx(asked, abs=1) and full["place"] == "in_gap"
    path = f"processes/{found['id']}/events?range=1m&kinds=collection"
    eventually(lambda: any(map(is_full, hub.get(path)["events"])))


def test_a_policy_is_switched_from_the_hub(hub, program):
    found = hub.wait_for(program.pid)
    path = f"/api/v1/processes/{found['id']}/policy"
    assert hub.ask("POST", path, {"policy": "gap"}) == (200, {"before": "observe", "after": "gap"})
    assert ask(program.pid)["policy"] == "gap"
    hub.wait_for(program.pid, lambda process: process["policy"] == "gap" and process["acting"])
    changes = eventually(lambda: hub.get(f"processes/{found['id']}/events?kinds=policy")["events"])
    assert (changes[0]["before"], changes[0]["after"]) == ("observe", "gap")
    status, body = hub.ask("POST", path, {"policy": "gapp"})
    assert (status, body["error"]["code"]) == (400, "bad_request") and "Did you mean gap" in body["error"]["message"]
    status, body = hub.ask("POST", f"/api/v1/processes/{found['id']}/collect", {"how": "young"})
    assert (status, body["how"]) == (200, "young")
    hub.ask("POST", path, {"policy": "observe"})


def test_a_program_that_ends_is_gone_and_its_history_stays(hub):
    with Console() as program:
        found = hub.wait_for(program.pid)
        with hub.live() as browser:
            browser.send({"type": "watch", "ids": [found["id"]]})
            browser.until(lambda message: message["type"] == "sample")
            program.process.kill()
            browser.until(lambda message: message["type"] == "gone")
    assert hub.find(program.pid) is None
    assert hub.find(program.pid, gone=True)["state"] == "gone"
    assert hub.get(f"processes/{found['id']}/series?range=5m")["t"]
    status, body = hub.ask("POST", f"/api/v1/processes/{found['id']}/policy", {"policy": "gap"})
    assert (status, body["error"]["code"]) == (409, "gone")


def test_a_fork_has_a_history_of_its_own_and_the_parent_goes_on(hub, program):
    before = hub.wait_for(program.pid)
    child = int(program.do("(pid := os.fork()) or time.sleep(60) or os._exit(0)"))
    try:
        assert hub.wait_for(child)["id"] != before["id"]
        assert hub.wait_for(program.pid, lambda process: process["seen_ms"] > before["seen_ms"] + 2000)["id"] == before["id"]
    finally:
        os.kill(child, signal.SIGKILL)
        program.do(f"os.waitpid({child}, 0)")


def test_pages_of_others_are_refused(hub):
    with pytest.raises(Refused) as refused:
        hub.live(headers=["Origin: http://evil.example"])
    assert refused.value.args == (403,)
    origin = {"Origin": "http://evil.example"}
    assert hub.ask("POST", "/api/v1/processes/x/policy", {"policy": "gap"}, headers=origin)[0] == 403
    hub.live(headers=[f"Origin: {hub.url}"]).close()


def full_collections(hub, labels):
    """How many full collections Prometheus is told of."""
    lines = hub.ask("GET", "/metrics")[1].decode().splitlines()
    counts = [line for line in lines if line.startswith("neurogc_gc_pause_seconds_count{") and labels in line]
    [count] = [line for line in counts if 'kind="full"' in line]
    return int(count.rpartition(" ")[2])


def test_prometheus_finds_every_figure(hub, program):
    hub.wait_for(program.pid)
    status, text = hub.ask("GET", "/metrics")
    lines = text.decode().splitlines()
    assert status == 200
    [info] = [line for line in lines if line.startswith("neurogc_process_info{") and f'pid="{program.pid}"' in line]
    service, worker = (info.split(f'{label}="')[1].split('"')[0] for label in ("service", "worker"))
    assert (service, worker.partition("#")[0]) == (ask(program.pid)["service"], "main")
    labels = f'service="{service}",worker="{worker}",'
    own = [line for line in lines if labels in line]
    assert any(line.startswith("neurogc_policy_info{") and 'policy="' in line for line in own)
    assert any(line.startswith("neurogc_stalled_seconds_total{") and 'cause="gc"' in line for line in own)
    assert not any("pid=" in line for line in own if line != info)
    assert any(line.startswith("neurogc_memory_rss_bytes{") for line in own)
    # The hub's report may be a second old.
    eventually(lambda: full_collections(hub, labels) == ask(program.pid)["gc"]["full"]["count"], what="the count of the agent")
    for line in lines:
        name, _, value = line.rpartition(" ")
        assert line.startswith("# ") or (name.startswith("neurogc_") and float(value) >= 0), line


def test_a_collector_is_sent_metrics(tmp_path, program):
    came = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            came.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_METRIC_EXPORT_INTERVAL": 2000}
        with Hub(tmp_path, "--otlp", f"http://127.0.0.1:{server.server_port}", variables=variables) as hub:
            hub.wait_for(program.pid)

            def own():
                for path, message in came:
                    for resource in message["resourceMetrics"]:
                        facts = {item["key"]: item["value"] for item in resource["resource"]["attributes"]}
                        if facts["process.pid"] == {"intValue": str(program.pid)}:
                            return path, {metric["name"]: metric for metric in resource["scopeMetrics"][0]["metrics"]}
                return None

            path, metrics = eventually(own, within=30)
        server.shutdown()
    assert path == "/v1/metrics"
    points = metrics["cpython.gc.collections"]["sum"]["dataPoints"]
    assert [point["attributes"][0]["value"]["intValue"] for point in points] == ["0", "1", "2"]
    assert metrics["process.memory.usage"]["sum"]["dataPoints"][0]["asDouble"] > 1e6


def test_a_trace_is_replayed(hub, tmp_path):
    trace = tmp_path / "service.ngct"
    with Console(NEUROGC_TRACE=trace) as program:
        program.do("requests(30, 0.01)")
        program.do("gc.collect()")
        eventually(lambda: trace.stat().st_size > 500)
        program.do("time.sleep(1)")
        program.end()
    status, entry = hub.ask("POST", "/api/v1/recordings?name=service.ngct", trace.read_bytes())
    assert (status, entry["kind"], entry["name"]) == (201, "trace", "service.ngct")
    one = hub.get(f"recordings/{entry['id']}")
    assert (one["process"]["pid"], one["damage"]) == (program.pid, [])
    chart = hub.get(f"recordings/{entry['id']}/series?names=requests.p50_ms,memory.rss,fds")
    assert max(filter(None, chart["series"]["requests.p50_ms"])) > 9
    assert set(chart["series"]["fds"]) == {None}
    events = hub.get(f"recordings/{entry['id']}/events")["events"]
    assert any(event["kind"] == "collection" and event["what"] == "full" for event in events)
    assert hub.ask("GET", f"/api/v1/recordings/{entry['id']}/file")[1] == trace.read_bytes()
    assert hub.ask("DELETE", f"/api/v1/recordings/{entry['id']}")[0] == 204


def test_the_demo_is_seen_side_by_side(tmp_path):
    browser, opened = tmp_path / "xdg-open", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    words = [binary(), "demo", "--dashboard", "--seconds", "2", "--python", sys.executable, "--out", str(tmp_path)]
    demo = subprocess.Popen(words, env=environment(DISPLAY=":0", PATH=path), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        link = next(line.split()[1] for line in demo.stdout if line.startswith("Dashboard: "))
        eventually(lambda: opened.exists() and opened.read_text().strip() == link)
        url = urllib.parse.urlsplit(link)
        view = urllib.parse.parse_qs(url.fragment.partition("?")[2])
        compared = f"/api/v1/compare?range=5m&names=requests.rps&a={view['a'][0]}&b={view['b'][0]}"
        assert any("stays until Ctrl-C" in line for line in demo.stdout)
        token = urllib.parse.parse_qs(url.query)["token"][0]
        asked = urllib.request.Request(f"http://{url.netloc}{compared}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked) as answer:
            found = json.load(answer)
        assert (found["a"]["policy"], found["b"]["policy"]) == ("cpython", "gap")
        assert found["whole"]["requests.rps"]["a"] > 0 and found["whole"]["requests.rps"]["b"] > 0
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 0
    finally:
        demo.kill()
        demo.communicate()

"""`neurogc hub --alerts` with a real hub, real programs, a webhook and a command."""

import contextlib
import http.server
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

import pytest
from hub import Console, Hub
from observed import binary, environment, eventually, start

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.once,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]

SECRET = "T0-SECRET"


@contextlib.contextmanager
def webhook(answers=(), tls=None):
    """A server that takes alerts. It answers with these statuses first, and then with 200. `tls` is its certificate and key."""
    came, answers = [], list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answers.pop(0) if answers else 200
            came.append((status, self.path, self.headers, json.loads(body)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/{SECRET}", came
        finally:
            server.shutdown()


def alerts(hub):
    return hub.get("alerts")


def slow_rule(service, over="5s"):
    """A rule that requests of some milliseconds break."""
    return f'[[rule]]\nname = "slow"\np99_ms = 15\nover = "{over}"\nclear_for = "1s"\nservice = "{service}"\n'


def of(came, path="web"):
    """The alerts that arrived at a path."""
    return [body for status, where, _, body in came if status == 200 and where.endswith(path)]


@pytest.mark.long(18)
def test_slow_requests_are_told_once_and_when_they_are_over(tmp_path, monkeypatch):
    monkeypatch.setenv("ALERT_KEY", "k-SECRET")
    rules, taken = tmp_path / "alerts.toml", tmp_path / "taken"
    script = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
    command = json.dumps([sys.executable, "-c", script, str(taken)])
    # The first message is refused for a while and sent again.
    with webhook(answers=[503]) as (url, came), Console(NEUROGC_SERVICE="slow-shop") as program:
        rules.write_text(
            f'[channel.web]\nwebhook = "{url}/web"\nheaders = {{ X-Key = "env:ALERT_KEY" }}\n'
            f'[channel.slack]\nslack = "{url}/slack"\n'
            f"[channel.script]\ncommand = {command}\n" + slow_rule("slow-shop")
        )
        with Hub(tmp_path / "data", "--alerts", str(rules)) as hub:
            hub.wait_for(program.pid)

            def mine(messages):
                return [it for it in messages if it["alert"]["process"]["pid"] == program.pid]

            def events():
                return [it["event"] for it in mine(of(came))]

            def keep_slow():
                program.do("requests(12, 0.03)")
                return events()

            assert eventually(keep_slow, what="an alert") == ["firing"]
            [told] = mine(of(came))
            assert told["alert"]["rule"] == "slow" and told["alert"]["unit"] == "milliseconds"
            assert told["alert"]["value"] > 15 and "p99 of the last 5 s" in told["alert"]["text"]
            state = alerts(hub)
            [firing] = [it for it in state["alerts"] if it["process"]["pid"] == program.pid]
            assert (firing["state"], firing["id"]) == ("firing", told["alert"]["id"])
            _, metrics = hub.ask("GET", "/metrics")
            assert re.search(r'neurogc_alert_firing\{rule="slow",service="[^"]+",host="[^"]+"\} [1-9]', metrics.decode())
            # It goes on, and is not told again.
            until = time.monotonic() + 5
            while time.monotonic() < until:
                keep_slow()
            assert events() == ["firing"]
            # No request is slow any more.
            assert eventually(lambda: events()[1:], what="the end of the alert", within=30) == ["resolved"]
            assert mine(of(came))[1]["alert"]["id"] == told["alert"]["id"]
            eventually(lambda: taken.exists() and len(mine(map(json.loads, taken.read_text().splitlines()))) == 2)
            slack = [body["text"] for body in of(came, "slack")]
            assert any(text.startswith("*slow: ") and f"process {program.pid} " in text for text in slack)
            assert all(headers["X-Key"] == "k-SECRET" for _, path, headers, _ in came if path.endswith("web"))
            state = alerts(hub)
            assert not [it for it in state["alerts"] if it["process"]["pid"] == program.pid]
            assert [it for it in state["resolved"] if it["process"]["pid"] == program.pid]
            assert all(channel["sent"] and not channel["failed"] for channel in state["channels"])
            assert "SECRET" not in json.dumps(state) and "127.0.0.1" in json.dumps(state["channels"])
        assert "neurogc: alert: slow: " in hub.said and "SECRET" not in hub.said


def test_a_file_is_read_again_and_a_broken_one_is_not_taken(tmp_path):
    rules = tmp_path / "alerts.toml"
    rules.write_text(slow_rule("none"))
    with Hub(tmp_path / "data", "--alerts", str(rules)) as hub:
        assert [rule["name"] for rule in alerts(hub)["rules"]] == ["slow"]
        rules.write_text('[[rule]]\nname = "slow"\np99 = 15\n')
        error = eventually(lambda: alerts(hub)["file_error"], what="the error")
        assert "line 3" in error and "`p99`" in error
        assert [rule["name"] for rule in alerts(hub)["rules"]] == ["slow"]
        rules.write_text(slow_rule("none") + '[[rule]]\nname = "leak"\nfinding = "leak"\n')
        hub.process.send_signal(signal.SIGHUP)
        eventually(lambda: [rule["name"] for rule in alerts(hub)["rules"]] == ["slow", "leak"])
        assert alerts(hub)["file_error"] is None
    assert "line 3" in hub.said and "stay in force" in hub.said


def test_an_alert_is_not_told_again_by_the_next_hub(tmp_path):
    rules = tmp_path / "alerts.toml"
    with webhook() as (url, came), Console(NEUROGC_SERVICE="slow-twice") as program:
        rules.write_text(f'[channel.web]\nwebhook = "{url}/web"\n' + slow_rule("slow-twice", over="1h"))

        def mine():
            return [it["event"] for it in of(came) if it["alert"]["process"]["pid"] == program.pid]

        with Hub(tmp_path / "data", "--alerts", str(rules)) as hub:
            hub.wait_for(program.pid)
            assert eventually(lambda: program.do("requests(12, 0.03)") and mine()) == ["firing"]
            hub.stop()
            hub.start()
            # The hub looks at the rules every two seconds.
            seen = hub.wait_for(program.pid)["seen_ms"]
            hub.wait_for(program.pid, lambda process: program.do("requests(12, 0.03)") and process["seen_ms"] > seen + 4500)
            [firing] = alerts(hub)["alerts"]
            assert (firing["state"], firing["process"]["pid"]) == ("firing", program.pid)
            program.process.kill()
            assert eventually(lambda: mine()[1:], within=30) == ["resolved"]
            assert mine() == ["firing", "resolved"]


def test_a_service_that_has_gone_is_told_of(tmp_path):
    rules = tmp_path / "alerts.toml"
    with webhook() as (url, came), Console(NEUROGC_SERVICE="gone-shop") as program:
        rule = '[[rule]]\nname = "away"\ngone = true\nfor = "1s"\nservice = "gone-*"\n'
        rules.write_text(f'[channel.web]\nwebhook = "{url}/web"\n{rule}')
        with Hub(tmp_path / "data", "--alerts", str(rules)) as hub:
            # The hub looks at the rules every two seconds.
            seen = hub.wait_for(program.pid)["seen_ms"]
            hub.wait_for(program.pid, lambda process: process["seen_ms"] > seen + 4500)
            program.process.kill()
            program.process.wait()
            [told] = eventually(lambda: of(came), within=30)
            assert (told["event"], told["alert"]["rule"]) == ("firing", "away")
            # Another one takes its place.
            with Console(NEUROGC_SERVICE="gone-shop"):
                eventually(lambda: [it["event"] for it in of(came)] == ["firing", "resolved"], within=30)


LEAK = """
import sys, time
seen = {}
def work(number):
    for part in range(3):
        seen[(number, part)] = [number, "x" * 300 + str(number)]
print("started", flush=True)
for number in range(10**9):
    work(number)
    time.sleep(0.01)
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 12), reason="it takes three minutes: one version is enough")
def test_a_leak_is_told_once_with_its_holder(tmp_path):
    rules, script = tmp_path / "alerts.toml", tmp_path / "leaking.py"
    script.write_text(LEAK)
    program = start(sys.executable, str(script), NEUROGC_SERVICE="leaking")
    try:
        with webhook() as (url, came):
            rule = '[[rule]]\nname = "leak"\nfinding = "leak"\nservice = "leaking"\n'
            rules.write_text(f'[channel.web]\nwebhook = "{url}/web"\n{rule}')
            with Hub(tmp_path / "data", "--alerts", str(rules)) as hub:
                hub.wait_for(program.pid)
                eventually(lambda: of(came), within=190, what="the alert")
                # The hub looks at the rules every two seconds.
                seen = hub.find(program.pid)["seen_ms"]
                hub.wait_for(program.pid, lambda process: process["seen_ms"] > seen + 9000)
                [told] = of(came)
                assert (told["event"], told["alert"]["kind"]) == ("firing", "unbounded_container")
                assert told["alert"]["holder"] == "__main__.seen" and told["alert"]["certainty"] in ("likely", "certain")
                program.kill()
                program.communicate()
                eventually(lambda: of(came)[1:], within=30)
                assert [it["event"] for it in of(came)] == ["firing", "resolved"]
                assert of(came)[1]["changes"] == ["the process has ended"]
    finally:
        if program.poll() is None:
            program.kill()
            program.communicate()


def run(*words, **env):
    return subprocess.run([binary(), "hub", *words], capture_output=True, text=True, env=environment(**env), timeout=60)


def test_files_are_checked_and_channels_tested_before_the_hub_runs(tmp_path):
    rules = tmp_path / "alerts.toml"
    rules.write_text('[channel.web]\nwebhook = "ftp://x/SECRET"\n')
    for words in ([], ["--check"], ["--test-alert"]):
        done = run("--alerts", str(rules), "--data", str(tmp_path / "data"), *words)
        assert done.returncode == 2 and "alerts.toml, line 2: " in done.stderr and "SECRET" not in done.stderr
    with webhook(answers=[200, 404]) as (url, came):
        rules.write_text(f'[channel.web]\nwebhook = "{url}/web"\n[[rule]]\nname = "leak"\nfinding = "leak"\n')
        done = run("--alerts", str(rules), "--check")
        assert done.returncode == 0 and "rule leak: " in done.stdout and "SECRET" not in done.stdout
        done = run("--alerts", str(rules), "--test-alert")
        assert (done.returncode, done.stdout) == (0, "log: sent\nweb: sent\n")
        assert of(came)[0]["event"] == "test"
        done = run("--alerts", str(rules), "--test-alert")
        assert done.returncode == 1 and "web: not sent: it answers HTTP 404" in done.stdout
    assert run("--check").returncode == 2


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_a_webhook_over_https_needs_a_certificate_that_is_trusted(tmp_path):
    rules, key, certificate = (tmp_path / name for name in ("alerts.toml", "key.pem", "certificate.pem"))
    words = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *made, *words], check=True, capture_output=True)
    with webhook(tls=(certificate, key)) as (url, came):
        rules.write_text(f'[channel.web]\nwebhook = "{url}/web"\n[[rule]]\nname = "leak"\nfinding = "leak"\n')
        done = run("--alerts", str(rules), "--test-alert", SSL_CERT_FILE=certificate)
        assert (done.returncode, done.stdout) == (0, "log: sent\nweb: sent\n"), done.stdout
        assert of(came)[0]["event"] == "test"
        done = run("--alerts", str(rules), "--test-alert")
        assert done.returncode == 1 and "web: not sent: " in done.stdout and "certificate" in done.stdout
        assert SECRET not in done.stdout + done.stderr

"""Whom a hub believes: tokens, and processes that claim to be others."""

import http.client
import http.server
import json
import os
import stat
import struct
import subprocess
import sys
import threading
import time

import pytest
from hub import CONSOLE, Console, Hub
from observed import ask, binary, environment, eventually

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.once,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
OTHER_USER = 65534


def frame(report):
    """A report as agents post it, without events."""
    text = json.dumps(report).encode()
    return struct.pack("<II", 4 + len(text), len(text)) + text


# A program that listens where the agent of another process would, and reports in its name.
IMPOSTOR = """
import json, os, socket, struct, sys
path, report, user = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("ready", flush=True)
def message(it):
    text = json.dumps(it).encode()
    return struct.pack("<I", len(text)) + text
while True:
    peer = listener.accept()[0]
    length, = struct.unpack("<I", peer.recv(4))
    question = json.loads(peer.recv(length))["ask"]
    print(json.dumps(question), flush=True)
    if question != "follow":
        peer.sendall(message({"refused": "by the impostor"}))
        continue
    text = json.dumps(report).encode()
    peer.sendall(message("following") + struct.pack("<II", 4 + len(text), len(text)) + text)
    while peer.recv(100):
        pass
"""


class Impostor:
    """A process of another user, or of this one, that says it is another process."""

    def __init__(self, path, report, user):
        words = [sys.executable, "-I", "-c", IMPOSTOR, str(path), json.dumps(report), str(user)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/")
        assert self.process.stdout.readline() == "ready\n"
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        if os.path.exists(self.path):
            os.unlink(self.path)


def claim(found, **more):
    """A report in the name of a process that the hub knows."""
    return {"host": found["host"], "pid": found["pid"], "started_unix_ms": found["started_ms"], "at_s": 1e6,
            "sample": {"status": {"policy": "stolen", "command": "evil"}}, **more}


@AS_ROOT
def test_a_user_cannot_take_the_place_of_anothers_process(tmp_path):
    with Hub(tmp_path) as hub, Console(NEUROGC_POLICY="observe") as program:
        found = hub.wait_for(program.pid)
        path = f"/tmp/neurogc-{OTHER_USER}/{program.pid}.sock"
        with Impostor(path, claim(found), OTHER_USER):
            told = eventually(lambda: (ingest := hub.get("hub")["ingest"])["impostors"] and ingest)
            assert f"claims to be process {program.pid}" in told["last_impostor"], told
            assert f"of user {OTHER_USER}" in told["last_impostor"], told
            now = hub.find(program.pid)["seen_ms"]
            after = hub.wait_for(program.pid, lambda process: process["seen_ms"] > now + 2000)
            assert (after["id"], after["policy"], after["source"]) == (found["id"], "observe", "socket")
            assert len([one for one in hub.get("processes")["processes"] if one["pid"] == program.pid]) == 1
            # The order reaches the process itself.
            order = f"/api/v1/processes/{found['id']}/policy"
            assert hub.ask("POST", order, {"policy": "cpython"}) == (200, {"before": "observe", "after": "cpython"})
            assert ask(program.pid)["policy"] == "cpython"


@AS_ROOT
def test_a_socket_that_was_put_in_the_place_of_another_gets_no_orders(tmp_path):
    """The owner of the folder puts a socket of another process where the hub has found an agent."""
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    with Console(NEUROGC_POLICY="observe") as program:
        os.symlink(f"/tmp/neurogc-0/{program.pid}.sock", sockets / f"{program.pid}.sock")
        with Hub(tmp_path / "data", "--sockets", str(sockets)) as hub:
            found = hub.wait_for(program.pid)
            os.unlink(sockets / f"{program.pid}.sock")
            with Impostor(str(sockets / f"{program.pid}.sock"), claim(found), os.geteuid()) as impostor:
                order = f"/api/v1/processes/{found['id']}/policy"
                status, said = hub.ask("POST", order, {"policy": "cpython"})
                assert (status, said["error"]["code"]) == (409, "gone")
                impostor.process.kill()
                assert "policy" not in impostor.process.stdout.read()
        assert ask(program.pid)["policy"] == "observe"


def test_an_agent_that_posts_cannot_speak_for_another(tmp_path):
    with Hub(tmp_path, "--no-local") as hub:
        report = {"host": "far", "pid": 7, "started_unix_ms": 5, "at_s": 1.0, "key": "first"}
        assert hub.ask("POST", "/api/v1/ingest", frame(report), token=hub.report_token)[0] == 200
        status, said = hub.ask("POST", "/api/v1/ingest", frame({**report, "key": "second"}), token=hub.report_token)
        assert (status, said["error"]["code"]) == (403, "forbidden") and "far-7-5" in said["error"]["message"]
        assert hub.get("hub")["ingest"]["impostors"] == 1
        assert hub.ask("POST", "/api/v1/ingest", frame({**report, "at_s": 2.0}), token=hub.report_token)[0] == 200


def test_tokens_are_made_once_and_allow_what_they_are_for(tmp_path):
    with Hub(tmp_path, "--no-local") as hub:
        file = tmp_path / "hub.tokens"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert {hub.token, hub.read_token, hub.report_token} == {line.split()[1] for line in file.read_text().splitlines()}
        before = hub.token
        order = "/api/v1/processes/x/policy"
        expected = {hub.token: (200, 404, 200), hub.read_token: (200, 403, 403), hub.report_token: (403, 403, 200),
                    "wrong": (401, 401, 401)}
        for token, (looks, orders, reports) in expected.items():
            assert hub.ask("GET", "/api/v1/hub", token=token)[0] == looks
            assert hub.ask("GET", "/metrics", token=token)[0] == looks
            assert hub.ask("POST", order, {"policy": "gap"}, token=token)[0] == orders
            assert hub.ask("POST", "/api/v1/ingest", b"", token=token)[0] == reports
        hub.stop()
        hub.start()
        assert hub.token == before


def test_the_printed_address_opens_the_page(tmp_path):
    words = [binary(), "hub", "--data", str(tmp_path), "--listen", "0", "--no-local"]
    hub = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        url = hub.stdout.readline().split()[2]
        host, _, query = url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("GET", f"/{query}")
        answer = connection.getresponse()
        answer.read()
        cookie = answer.getheader("Set-Cookie")
        assert (answer.status, answer.getheader("Location")) == (303, "/")
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        connection.request("GET", "/api/v1/hub", headers={"Cookie": cookie.partition(";")[0]})
        assert json.load(connection.getresponse())["may_order"] is True
    finally:
        hub.terminate()
        hub.communicate()


def test_run_reports_to_a_hub_of_the_same_user_without_a_token_in_hand(tmp_path):
    with Hub(tmp_path, "--no-local") as hub:
        words = [binary(), "run", "--hub", hub.url, "--", sys.executable, "-c", CONSOLE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        program = subprocess.Popen(words, env=environment(), text=True, **pipes)
        try:
            found = hub.wait_for(program.pid)
            assert (found["source"], found["warnings"]) == ("push", [])
        finally:
            program.kill()
            program.communicate()
        note = f"/tmp/neurogc-{os.geteuid()}/hub-{hub.port}"
        assert stat.S_IMODE(os.stat(note).st_mode) == 0o600 and hub.token not in open(note).read()
        hub.stop()
        assert not os.path.exists(note)


def test_an_order_is_repeated_and_its_answer_is_not_lost_with_the_post_that_carried_it():
    """The hub orders a policy with every reply, and fails when the answer comes: it is done once, and told again."""
    carried, order = [], {"number": 77, "ask": {"policy": "cpython"}}

    class Failing(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            length, = struct.unpack("<I", body[4:8])
            answers = json.loads(body[8:8 + length])["answers"]
            reply = json.dumps({"wanted": [order]}).encode()
            if answers:
                carried.append(answers)
            if answers and len(carried) == 1:
                # It has all of the post, and says nothing.
                self.close_connection = True
                return
            self.send_response(500 if answers and len(carried) == 2 else 200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Console(NEUROGC_HUB=f"http://127.0.0.1:{server.server_port}", NEUROGC_POLICY="observe") as program:
            eventually(lambda: len(carried) >= 3, within=30)
            assert ask(program.pid)["policy"] == "cpython"
            time.sleep(3)
        server.shutdown()
    answer = [{"number": 77, "answer": {"outcome": {"policy": {"before": "observe", "after": "cpython"}}}}]
    assert carried == [answer, answer, answer]

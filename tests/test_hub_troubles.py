"""What a hub must bear: its own death, slow browsers, full disks, strangers; and programs that never notice."""

import resource
import signal
import socket
import sqlite3
import subprocess
import time

import pytest
from hub import Console, Hub
from observed import ask, binary, environment, eventually
from websocket import Refused

TOKEN = "0123456789abcdef-for-tests"

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.once,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]


@pytest.mark.long(9)
def test_history_survives_a_hub_that_is_killed(tmp_path):
    with Hub(tmp_path) as hub, Console() as program:
        found = hub.wait_for(program.pid)
        path = f"processes/{found['id']}/series?range=5m&names=memory.rss"
        with hub.live() as browser:
            browser.send({"type": "watch", "ids": [found["id"]]})
            last = [browser.until(lambda message: message["type"] == "sample")["t"] for _ in range(4)][-1]
            # A second after the last sample it must be on disk.
            time.sleep(1)
            hub.stop(signal.SIGKILL)
        hub.start()
        assert last in hub.get(path)["t"]
        again = hub.wait_for(program.pid, lambda process: process["state"] == "live" and process["latest"])
        assert again["id"] == found["id"]
        eventually(lambda: hub.get(path)["t"][-1] > last + 2000)


def test_a_slow_browser_skips_and_others_do_not(tmp_path):
    with Hub(tmp_path) as hub, Console(NEUROGC_POLICY="observe") as program:
        found = hub.wait_for(program.pid)
        watch = {"type": "watch", "ids": [found["id"]]}
        with hub.live(receive_buffer=4096) as slow, hub.live() as quick:
            slow.send(watch)
            quick.send(watch)
            program.do("threading.Thread(target=flood).start()")
            eventually(lambda: (drain(quick), hub.get("hub")["clients"]["skipped"])[1] > 0, within=60)
            program.do("enough.set()")
            sample = quick.until(lambda message: message["type"] == "sample")
            assert sample["t"] / 1000 == pytest.approx(time.time(), abs=5)
        eventually(lambda: hub.get("hub")["clients"]["connected"] == 0)


def drain(browser):
    """Takes a few messages, as a browser does."""
    for _ in range(3):
        browser.receive()


def test_a_full_disk_is_counted_and_told_and_passes(tmp_path):
    with Hub(tmp_path) as hub, Console() as program:
        found = hub.wait_for(program.pid)
        roomy = resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (4096, roomy[1]))
        store = eventually(lambda: (store := hub.get("hub")["store"])["trouble"] and store)
        assert store["dropped"] > 0 and "not being written" in store["trouble"]
        before = hub.find(program.pid)["seen_ms"]
        hub.wait_for(program.pid, lambda process: process["state"] == "live" and process["seen_ms"] > before + 1000)
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, roomy)
        eventually(lambda: hub.get("hub")["store"]["trouble"] is None)
        now = time.time() * 1000
        # Where the disk was full before the first row was written, there is none at first.
        eventually(lambda: max(hub.get(f"processes/{found['id']}/series?range=1m")["t"], default=0) > now)


def seen(pid):
    """Collections that the agent has counted, or dropped where it could not."""
    status = ask(pid)
    return status["gc"]["young"]["count"] + status["agent"]["dropped"]


def test_a_hub_that_stands_still_holds_no_program_up(tmp_path):
    with Hub(tmp_path) as hub, Console() as program:
        hub.wait_for(program.pid)
        hub.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            program.do("[gc.collect(0) for _ in range(50_000)] and None")
            # So many at once may not fit: what is dropped is counted. Requests come when the books are written up.
            eventually(lambda: seen(program.pid) >= 50_000, what="all collections in the books, or dropped")
            program.do("requests(100, 0.001)")
            assert time.monotonic() - began < 20
            eventually(lambda: ask(program.pid)["requests"]["count"] >= 100, what="100 requests in the books")
        finally:
            hub.process.send_signal(signal.SIGCONT)
        now = time.time() * 1000
        hub.wait_for(program.pid, lambda process: process["seen_ms"] > now)


def test_a_collector_that_is_away_is_told_of_once_and_does_no_harm(tmp_path):
    with Hub(tmp_path, "--otlp", "http://127.0.0.1:9") as hub, Console() as program:
        hub.wait_for(program.pid)
        hub.stop()
    assert hub.said.count("metrics do not reach 127.0.0.1:9") == 1


@pytest.mark.long(10)
def test_idle_connections_do_not_keep_others_out(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = []
    try:
        with Hub(tmp_path, "--no-local") as hub:
            own = resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE)
            idle = [socket.create_connection(("127.0.0.1", hub.port)) for _ in range(min(1200, hard // 2, own[1] // 2))]
            for slow in idle:
                slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
            assert own[0] == own[1] and hub.get("hub")["neurogc"]
            # Who has not said in ten seconds what they want is left: they are answered that it took too long, or nothing.
            idle[0].settimeout(20)
            assert b"200" not in idle[0].recv(100)
    finally:
        for slow in idle:
            slow.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_database_that_is_none_is_moved_aside(tmp_path):
    (tmp_path / "hub.db").write_bytes(b"Z" * 100_000)
    with Hub(tmp_path, "--no-local") as hub:
        assert "hub.db.broken" in hub.get("hub")["store"]["notice"]
        hub.stop()
    assert (tmp_path / "hub.db.broken").read_bytes() == b"Z" * 100_000
    assert "hub.db.broken" in hub.said


def test_a_database_of_a_later_version_is_refused(tmp_path):
    with Hub(tmp_path, "--no-local"):
        pass
    database = sqlite3.connect(tmp_path / "hub.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    words = [binary(), "hub", "--data", str(tmp_path), "--listen", "0"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "later version of NeuroGC" in done.stderr


def test_without_a_token_the_hub_stays_on_loopback(tmp_path):
    words = [binary(), "hub", "--data", str(tmp_path), "--listen", "0.0.0.0:0"]
    done = subprocess.run([*words, "--no-token"], env=environment(), capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "only for loopback" in done.stderr
    done = subprocess.run([*words, "--token", "short"], env=environment(), capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "short" not in done.stderr
    with Hub(tmp_path, "--no-local", "--no-token") as hub:
        assert hub.token is None and hub.get("hub")["token"] is False
        assert hub.ask("GET", "/api/v1/hub", headers={"Host": "evil.example"})[0] == 403


def test_two_hubs_do_not_share_their_history(tmp_path):
    with Hub(tmp_path):
        words = [binary(), "hub", "--data", str(tmp_path), "--listen", "0"]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and "another hub uses it" in done.stderr


@pytest.fixture
def guarded(tmp_path):
    with Hub(tmp_path, "--no-local", token=TOKEN) as hub:
        yield hub


def test_without_the_token_nothing_is_told(guarded):
    assert guarded.ask("GET", "/api/v1/processes", token=None)[0] == 401
    assert guarded.ask("GET", "/api/v1/processes", token="0123456789abcdef-for-testz")[0] == 401
    assert guarded.ask("POST", "/api/v1/ingest", b"", token=None)[0] == 401
    assert guarded.ask("GET", "/", token=None)[0] == 200
    with guarded.live() as browser:
        assert browser.receive()["type"] == "hello"
        assert "sec-websocket-protocol: neurogc.v1" in browser.head.lower() and TOKEN not in browser.head
    token, guarded.token = guarded.token, None
    try:
        with pytest.raises(Refused):
            guarded.live()
    finally:
        guarded.token = token
    guarded.stop()
    # It was told on standard output when the hub started, and never again.
    assert TOKEN not in guarded.said


def test_an_agent_reports_by_itself_and_does_what_it_is_asked(guarded):
    with Console(NEUROGC_HUB=guarded.url, NEUROGC_HUB_TOKEN=TOKEN, NEUROGC_POLICY="observe") as program:
        found = guarded.wait_for(program.pid)
        assert found["source"] == "push"
        program.do("gc.collect()")
        path = f"/api/v1/processes/{found['id']}"
        eventually(lambda: [
            event for event in guarded.get(f"processes/{found['id']}/events")["events"] if event.get("what") == "full"
        ])
        assert guarded.ask("POST", f"{path}/policy", {"policy": "gap"}) == (200, {"before": "observe", "after": "gap"})
        assert ask(program.pid)["policy"] == "gap"
        guarded.stop(signal.SIGKILL)
        away = 1000 * float(program.do("(time.time(), gc.collect())[0]"))
        guarded.start()
        again = guarded.wait_for(program.pid, lambda process: process["state"] == "live" and process["latest"])
        assert again["id"] == found["id"]
        # What happened meanwhile has waited.
        eventually(lambda: [
            event for event in guarded.get(f"processes/{found['id']}/events")["events"]
            if event.get("what") == "full" and event["t"] > away - 50
        ])


def test_an_agent_with_a_wrong_token_says_so_and_runs_on(guarded):
    with Console(NEUROGC_HUB=guarded.url, NEUROGC_HUB_TOKEN="x" * 20) as program:
        eventually(lambda: any("refuses the token" in reason for reason in ask(program.pid)["degraded"]))
        assert program.do("1 + 1") == "2"
        assert guarded.find(program.pid) is None


def test_a_hub_that_is_away_does_no_harm():
    with Console(NEUROGC_HUB="http://127.0.0.1:9") as program:
        program.do("requests(20, 0.001)")
        status = ask(program.pid)
        assert status["requests"]["count"] == 20 and status["agent"]["cpu_ms"] < 2000


def test_a_wrong_address_is_told_before_anything_starts():
    for url, reason in [("https://127.0.0.1", "speaks no TLS"), ("nonsense", "must look like")]:
        words = [binary(), "run", "--hub", url, "--", "true"]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and reason in done.stderr, done.stderr

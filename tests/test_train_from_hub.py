"""`neurogc train --from-hub`: the hub keeps what programs record, and hands it over to those who train on it."""

import json
import socket
import subprocess
import sys

import pytest
from hub import Console, Hub
from observed import binary, environment, eventually, run

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.once,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]

# A service of some 45 requests a second, each with garbage, for a little more than half a minute: training wants 30 s and 1000 requests.
SERVICE = """
import random, time, neurogc

class Node:
    pass

for _ in range(1600):
    with neurogc.request():
        for _ in range(300):
            one, other = Node(), Node()
            one.other, other.other = other, one
        sum(range(20_000))
    time.sleep(random.uniform(0.015, 0.025))
"""


def train(folder, url, service, *words, token=None):
    """What the command says, and its exit code."""
    words = [binary(), "train", "--from-hub", url, "--service", service, "-o", str(folder / "m.safetensors"), *words]
    env = environment(**({"NEUROGC_HUB_TOKEN": token} if token else {}))
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)


def offered(hub, service):
    """The traces that the hub offers; none where it does not know the service."""
    status, said = hub.ask("GET", f"/api/v1/services/{service}/traces")
    return said["traces"] if status == 200 else []


def shown(path):
    """What `neurogc trace show` says of a file."""
    words = [binary(), "trace", "show", "--json", str(path)]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long(50)
def test_a_model_is_trained_on_what_the_hub_has_recorded(tmp_path):
    with Hub(tmp_path / "hub") as hub:
        run(sys.executable, "-c", SERVICE, timeout=120, NEUROGC_POLICY="gap", NEUROGC_SERVICE="shop", NEUROGC_HUB_TRACE="true")
        assert len(eventually(lambda: offered(hub, "shop"))) == 1
        done = train(tmp_path, hub.url, "shop", "--since", "7d", "--model", "linear", "--epochs", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["best"], report["seconds"] > 25) == ("linear", True), report
    assert (tmp_path / "m.safetensors").stat().st_size > 0
    (trace,) = (tmp_path / "m.traces").iterdir()
    assert f"fetched {trace}" in done.stderr
    seen = shown(trace)
    assert seen["header"]["service"] == "shop" and seen["damage"] == []
    # What was recorded before the hub found the process, within a second, is not there.
    assert 1500 <= seen["requests"]["count"] <= 1600, seen["requests"]


def test_a_program_that_posts_its_reports_is_recorded_too(tmp_path):
    with Hub(tmp_path / "hub", "--no-local") as hub:
        report = {"NEUROGC_HUB": hub.url, "NEUROGC_HUB_TOKEN": hub.report_token, "NEUROGC_SERVICE": "web shop"}
        with Console(NEUROGC_HUB_TRACE="true", **report) as recorded, Console(**report) as other:
            hub.wait_for(other.pid)
            found = hub.wait_for(recorded.pid)
            # It is recorded from its first report with figures on.
            eventually(lambda: offered(hub, "web%20shop"))
            recorded.do("requests(20, 0.001)")
            before = hub.get(f"processes/{found['id']}")["status"]["requests"]["count"]
            eventually(lambda: hub.get(f"processes/{found['id']}")["status"]["requests"]["count"] == 20, what=f"20, not {before}")
            path = tmp_path / "fetched.ngct"

            def requests():
                (one,) = offered(hub, "web%20shop")
                assert (one["process"]["pid"], one["source"]) == (recorded.pid, "agent")
                path.write_bytes(hub.ask("GET", one["file"])[1])
                return shown(path)["requests"]["count"]

            eventually(lambda: requests() == 20)
        done = train(tmp_path, hub.url, "web shop", token=hub.read_token)
    assert done.returncode == 1 and "a simulation needs" in done.stderr, done.stderr
    assert len(list((tmp_path / "m.traces").iterdir())) == 1


def test_what_is_wrong_is_said_and_nothing_is_left(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with Hub(tmp_path / "hub") as hub, Console(NEUROGC_SERVICE="silent") as program:
        hub.wait_for(program.pid)
        cases = [
            (train(tmp_path, nowhere, "silent"), "no hub answers at 127.0.0.1:", "neurogc hub"),
            (train(tmp_path, hub.url, "silent", token="x" * 20), "this is not the hub's token", "NEUROGC_HUB_TOKEN"),
            (train(tmp_path, hub.url, "silent", token=hub.report_token), "for agents that report", "`read` or `full` token"),
            (train(tmp_path, hub.url, "shop"), 'knows no service "shop"', "silent"),
            (train(tmp_path, hub.url, "silent"), "has recorded nothing of silent in the last 7 d", "hub_trace=true"),
            (train(tmp_path, f"{hub.url}/?token={hub.token}", "silent", "--since", "6h"), "in the last 6 h", "hub_trace"),
        ]
        for done, reason, remedy in cases:
            assert (done.returncode, done.stdout) == (1, ""), done
            assert reason in done.stderr and remedy in done.stderr, done.stderr
            assert hub.token not in done.stderr and hub.report_token not in done.stderr
        wrong = train(tmp_path, "hub.example", "silent")
        assert wrong.returncode == 2 and "http://127.0.0.1:7077" in wrong.stderr
        assert train(tmp_path, hub.url, "silent", "--since", "8d").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]

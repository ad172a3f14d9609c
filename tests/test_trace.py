"""Recorded traces: what is in them, how large they are, and what survives a killed process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from observed import ask, environment, eventually, start

pytestmark = pytest.mark.needs_agent

BINARY = os.environ.get("NEUROGC_BIN")
needs_binary = pytest.mark.skipif(not BINARY, reason="NEUROGC_BIN does not name the built command")


def show(path):
    """What `neurogc trace show --json` says of a file, its exit code and its warnings."""
    done = subprocess.run([BINARY, "trace", "show", "--json", str(path)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def records(path):
    """Records of a trace by kind, through the exported table."""
    done = subprocess.run(
        [BINARY, "trace", "export", str(path), "--to", "csv", "-o", "-"], capture_output=True, text=True, check=True
    )
    kinds = {}
    for line in done.stdout.splitlines()[1:]:
        kind = line.split(",", 1)[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def record(path, code, **env):
    """Runs code under the agent with a trace."""
    process = start(sys.executable, "-c", code, NEUROGC_TRACE=path, **env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), err
    return out


BUSY = """
import gc, time, neurogc
for index in range({count}):
    with neurogc.request():
        garbage = []
        garbage.append(garbage)
        del garbage
        sum(range({work}))
    time.sleep(0.002)
gc.collect()
"""


@needs_binary
def test_a_trace_holds_what_a_simulator_needs(tmp_path):
    path = tmp_path / "t.ngt"
    record(path, BUSY.format(count=300, work=50_000))
    kinds = records(path)
    assert kinds["request_start"] == kinds["request_end"] == 300, kinds
    assert kinds["collection"] >= 1 and kinds["process"] >= 1 and kinds["counts"] >= 1 and kinds["gap"] >= 1, kinds


@pytest.mark.once
@needs_binary
def test_a_minute_at_500_requests_a_second_stays_small(tmp_path):
    path = tmp_path / "t.ngt"
    record(path, BUSY.replace("0.002", "0.0016").format(count=1500, work=10))
    code, seen, _ = show(path)
    assert code == 0
    per_minute = path.stat().st_size / 1500 * 500 * 60
    assert per_minute <= 2_000_000, f"{per_minute:.0f} bytes per minute"


@pytest.mark.once
@pytest.mark.timing
@needs_binary
def test_a_killed_process_loses_at_most_the_last_second(tmp_path):
    path = tmp_path / "t.ngt"
    code = """
import time, neurogc
while True:
    with neurogc.request():
        pass
    time.sleep(0.001)
"""
    process = start(sys.executable, "-c", code, NEUROGC_TRACE=path)
    status = eventually(lambda: (seen := ask(process.pid))["uptime_s"] > 2.5 and seen)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    ended = records(path)["request_end"]
    rate = status["requests"]["count"] / status["uptime_s"]
    assert ended >= status["requests"]["count"] - 1.2 * rate, (ended, status["requests"])


@pytest.mark.once
@needs_binary
def test_a_cut_and_a_damaged_trace_give_all_that_is_readable(tmp_path):
    path = tmp_path / "t.ngt"
    record(path, BUSY.format(count=600, work=10))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    code, seen, warning = show(path)
    assert code == 0 and seen and "cut off" in warning, warning
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(middle))
    code, seen, warning = show(path)
    assert code == 0 and seen and "checksum" in warning, warning
    path.write_bytes(b"hello")
    code, _, warning = show(path)
    assert code == 1 and "not a NeuroGC trace" in warning, warning


@needs_binary
def test_children_record_beside_their_parent(tmp_path):
    path = tmp_path / "t.ngt"
    code = """
import os, neurogc
child = os.fork()
with neurogc.request():
    pass
if child:
    os.waitpid(child, 0)
    print(child)
"""
    child = record(path, code).strip()
    assert records(path)["request_end"] == 1
    assert records(tmp_path / f"t.{child}.ngt")["request_end"] == 1
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.once
@needs_binary
def test_a_trace_that_cannot_be_written_stops_nothing(tmp_path):
    code = "import json, neurogc; print(json.dumps(neurogc.status()['degraded']))"
    out = record(tmp_path / "missing" / "t.ngt", code)
    assert any("no trace" in reason for reason in json.loads(out)), out


def test_a_relative_trace_is_where_the_program_started(tmp_path):
    code = "import os; os.chdir('/')"
    done = subprocess.run(
        [sys.executable, "-c", f"import neurogc; neurogc.install(trace='t.ngt'); {code}"],
        env={**environment(), "PYTHONPATH": str(Path(__file__).resolve().parent.parent / "python")},
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert (tmp_path / "t.ngt").read_bytes().startswith(b"NGCTRACE")

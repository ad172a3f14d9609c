"""The policy `classic`: the first NeuroGC's way, beside CPython's own collections."""

import json
import shutil
import subprocess
import sys

import pytest
from observed import HOME, environment, python

pytestmark = pytest.mark.needs_agent

# A program that never rests, for so many seconds, and has so many megabytes.
BUSY = """
import gc, json, time, neurogc

class Node:
    pass

def busy(seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with neurogc.request():
            for _ in range(150):
                one, other = Node(), Node()
                one.other, other.other = other, one

held = bytearray(200 << 20)
held[::4096] = b"x" * len(held[::4096])
gc.collect()
before = neurogc.status()["gc"]["full"]["count"]
busy(SECONDS)
status = neurogc.status()
status["more"] = status["gc"]["full"]["count"] - before
print(json.dumps(status))
"""

URGENT = "the model finds it urgent"


def ordered(status):
    """How often the policy has ordered a collection."""
    return sum(each["count"] for each in status["conduct"]["orders"] if each["reason"] == URGENT)


def status_under(seconds, **env):
    return json.loads(python(BUSY.replace("SECONDS", str(seconds)), **env).splitlines()[-1])


@pytest.mark.once
@pytest.mark.long(16)
def test_under_pressure_everything_is_collected_about_once_a_second():
    status = status_under(16, NEUROGC_POLICY="classic", NEUROGC_MEMORY_MAX_MB="220")
    assert status["policy"] == "classic" and status["degraded"] == []
    assert 3 <= ordered(status) <= 7, status["conduct"]
    assert status["more"] >= ordered(status)
    # CPython goes on by itself, with the program's thresholds.
    assert status["gc"]["young"]["count"] > 500, status["gc"]


@pytest.mark.once
@pytest.mark.long(13)
def test_with_memory_to_spare_nothing_is_urgent():
    status = status_under(13, NEUROGC_POLICY="classic", NEUROGC_MEMORY_MAX_MB="20000")
    assert status["degraded"] == [] and ordered(status) == 0, status["conduct"]


def test_without_its_model_cpython_decides_and_the_status_says_so(tmp_path):
    home = tmp_path / "neurogc"
    shutil.copytree(HOME, home, ignore=shutil.ignore_patterns("models", "__pycache__"))
    code = "import json, time, neurogc; time.sleep(0.3); print(json.dumps(neurogc.status()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(NEUROGC_POLICY="classic"), "PYTHONPATH": str(home / "_inject"), "NEUROGC_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout.splitlines()[-1])
    assert any("cpython decides instead of classic" in reason for reason in status["degraded"]), status["degraded"]

"""The policy `neural`: a model decides, says how far it can be relied on, and never stands in the way."""

import json
import pathlib
import subprocess
import sys

import pytest
from observed import HOME, binary, environment, python

pytestmark = [pytest.mark.needs_agent, pytest.mark.timing]

SHIPPED = pathlib.Path(__file__).parent.parent / "crates/policy/models/shipped.safetensors"

# A service that starts up, is idle for a moment, and then serves with pauses between requests. It uses less than a tenth of a
# processor.
LIGHT = """
import json, random, time, neurogc

class Node:
    pass

def serve():
    with neurogc.request():
        for _ in range(150):
            one, other = Node(), Node()
            one.other, other.other = other, one
        sum(range(5000))

time.sleep(1.6)
for _ in range(900):
    serve()
    time.sleep(random.uniform(0.001, 0.006))
print(json.dumps(neurogc.status()))
"""

# The same with about 40 % of a processor.
WORK = """
        until = time.thread_time() + 0.0025
        while time.thread_time() < until:
            pass
"""
SERVICE = LIGHT.replace("        sum(range(5000))\n", WORK.lstrip("\n"))


def status_under(policy, code=SERVICE):
    """What a service says in the end."""
    return json.loads(python(code, NEUROGC_POLICY=policy).splitlines()[-1])


@pytest.mark.once
@pytest.mark.parametrize(("policy", "code"), [("neural", SERVICE), (f"neural:{SHIPPED}", LIGHT)], ids=["shipped", "named, light"])
def test_a_model_decides_and_says_how_good_it_is(policy, code):
    status = status_under(policy, code)
    gc, model = status["gc"], status["conduct"]["model"]
    assert status["policy"] == policy and status["degraded"] == []
    assert gc["in_request"]["count"] <= 0.1 * gc["in_gap"]["count"], gc
    # 900 requests with 300 objects each.
    assert gc["collected"] >= 200_000, gc
    assert model["family"] and model["gaps"] >= 50, model
    assert len(model["gap_ms"]) == len(model["covered"]) == 5
    assert model["gap_ms"] == sorted(model["gap_ms"])


@pytest.mark.once
def test_the_shipped_model_does_not_have_the_agent_look_at_a_program_that_does_little():
    status, gap = status_under("neural", LIGHT), status_under("gap", LIGHT)
    # Rules decide then, and nothing that was not looked at is compared.
    assert status["conduct"]["model"]["gaps"] <= 20, status["conduct"]["model"]
    gc = status["gc"]
    assert gc["in_request"]["count"] <= 0.1 * gc["in_gap"]["count"], gc
    own, theirs = (each["agent"]["cpu_ms"] for each in (status, gap))
    assert own <= 1.5 * theirs + 50, (own, theirs)


def test_other_policies_have_no_model():
    assert status_under("gap", "import json, neurogc; print(json.dumps(neurogc.status()))")["conduct"]["model"] is None


def test_a_model_that_cannot_be_used_leaves_it_to_rules(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"no model")
    code = "import json, time, neurogc; time.sleep(0.3); print(json.dumps(neurogc.status()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(NEUROGC_POLICY=f"neural:{file}", PYTHONPATH=HOME / "_inject", NEUROGC_HOME=HOME),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout.splitlines()[-1])
    assert any("gap decides instead of neural" in reason for reason in status["degraded"]), status["degraded"]


@pytest.mark.once
@pytest.mark.skipif(not binary(), reason="the neurogc command has not been built")
def test_the_command_refuses_a_model_that_cannot_be_used(tmp_path):
    for name, reason in [("absent", "No such file"), ("wrong", "cannot use the model")]:
        (tmp_path / "wrong").write_bytes(b"no model")
        done = subprocess.run(
            [binary(), "run", "--policy", f"neural:{tmp_path / name}", "--", "python3", "-c", "pass"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2 and reason in done.stderr, done.stderr

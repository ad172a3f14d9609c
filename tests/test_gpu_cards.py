"""Other processes on a card: what the driver's library says of them, made up by a library of our own."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from observed import APPS, Running, ask, binary, eventually, neurogc, python, run
from test_gpu import MODEL, TORCH

pytestmark = pytest.mark.needs_agent

MB = 1 << 20


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The folder of a made-up libnvidia-ml."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", folder / "libnvidia-ml.so.1", APPS / "fake_nvml.c"]
    subprocess.run(words, check=True)
    return folder


def train(code, library, processes):
    """Runs a program with the model on a card with these processes; 0 stands for it."""
    env = {"PYTHONPATH": TORCH, "NEUROGC_POLICY": "observe", "LD_LIBRARY_PATH": library, "FAKE_NVML": processes}
    done = run(sys.executable, "-c", MODEL + code, **env)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout.splitlines()[-1])


# The processes on the card, and what is told: how many others, their bytes, and what is this one's beside PyTorch.
CARDS = {
    "alone": (f"0:{100 * MB}", 0, 0, 76 * MB),
    "two_others": (f"77777:{30 * MB},0:{100 * MB},88888:{50 * MB}", 2, 80 * MB, 76 * MB),
    # The driver does not know how much the second one has.
    "unknown": (f"0:{100 * MB},77777:{2**64 - 1}", 0, 0, 76 * MB),
    "no_library": ("no", None, None, None),
}


@pytest.mark.parametrize("name", CARDS)
def test_other_processes_are_counted(library, name):
    processes, count, size, not_pytorch = CARDS[name]
    told = train("""
from neurogc._gpu import cards
cards._is_contained = lambda: False
kept = torch.Tensor(20 << 20)
step()
device = neurogc.status()["gpu"]["devices"][0]
print(json.dumps({"status": device, "held": explained()["devices"][0], "degraded": neurogc.status()["degraded"]}))
""", library, processes)
    status, held = told["status"], told["held"]
    assert told["degraded"] == []
    assert (status["other_processes"], status["other_processes_bytes"]) == (count, size)
    reserved = held["reserved_bytes"]
    assert held.get("not_pytorch") == (None if not_pytorch is None else 100 * MB - reserved), held
    assert [row["bytes"] for row in held.get("others", [])] == ([30 * MB, 50 * MB] if count == 2 else [])


def test_this_process_is_found_among_processes_with_other_numbers():
    """In a container the driver may list processes by the numbers that they have outside."""
    # Processes, the number inside, reserved bytes, in a container: what is this one's, and the other processes.
    table = [
        ({7: 500, 8: 900}, 7, 400, False, (500, {8: 900})),
        ({7: 500, 8: 900}, 9, 400, False, (None, {7: 500, 8: 900})),
        ({7: 500, 8: 900}, 7, 400, True, (500, {8: 900})),
        ({4007: 500, 4008: 900}, 7, 400, True, (500, {4008: 900})),
        ({4007: 500, 4008: 900}, 7, 600, True, (900, {4007: 500})),
        # The number is that of another process, outside.
        ({7: 100, 4008: 900}, 7, 600, True, (900, {7: 100})),
        ({4007: 500}, 7, 600, True, (None, {4007: 500})),
        ({}, 7, 600, True, (None, {})),
    ]
    rows = [(list(processes.items()), *rest) for processes, *rest, _ in table]
    found = json.loads(python(f"""
import json
from neurogc._gpu import cards
found = [cards._parted(dict(processes), *rest) for processes, *rest in {rows!r}]
print(json.dumps([(own, list(others.items())) for own, others in found]))
"""))
    for (*case, (own, others)), told in zip(table, found, strict=True):
        assert told == [own, [list(row) for row in others.items()]], (case, told)


@pytest.mark.skipif(not os.path.exists("/proc/self/ns/pid"), reason="needs namespaces of processes")
def test_in_a_container_this_process_is_not_listed_as_another_one(library):
    told = train("""
from neurogc._gpu import cards
cards._FIRST_NAMESPACE = "pid:[1]"
step()
print(json.dumps({"status": neurogc.status()["gpu"]["devices"][0], "held": explained()["devices"][0]}))
""", library, f"4000001:{100 * MB},4000002:{5 * MB}")
    assert (told["status"]["other_processes"], told["status"]["other_processes_bytes"]) == (1, 5 * MB)
    assert told["held"]["others"] == [{"pid": 4000002, "bytes": 5 * MB}]
    assert told["held"]["not_pytorch"] == 100 * MB - told["held"]["reserved_bytes"]


@pytest.mark.skipif(not binary(), reason="needs the neurogc command")
def test_the_status_says_who_else_is_on_the_card(library):
    code = MODEL + """
import time
step()
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
    env = {"PYTHONPATH": TORCH, "LD_LIBRARY_PATH": library, "FAKE_NVML": f"0:{100 * MB},77777:{30 * MB},88888:{50 * MB}"}
    with Running(code, policy="observe", **env) as program:
        assert program.line() == "ready" and eventually(lambda: ask(program.pid))
        text = neurogc("status", program.pid)
        assert "2 other processes have 80.0 MiB" in text and " active, " in text, text

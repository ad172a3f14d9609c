"""`neurogc run --memory-plot`: what is in the file, and that signals pass through to the program."""

import json
import re
import signal
import subprocess
import sys

import pytest

import observed

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not observed.binary(), reason="the neurogc command has not been built"),
]

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)

CHILD = "import time; held = bytearray(30_000_000); time.sleep(1)"

WORK = f"""
import gc, subprocess, sys, time
import neurogc

@neurogc.profile_memory
def load():
    rows = [bytearray(1_000_000) for _ in range(40)]
    time.sleep(0.5)
    return rows

def collect():
    for _ in range(3):
        cycle = []
        cycle.append(cycle)
        gc.collect()

child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
rows = load()
collect()
child.wait()
sys.exit(3)
"""

# Says that it is ready, and which signal came.
WAITING = """
import os, signal, sys, time
def note(number, frame):
    # It may come in the middle of a print.
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    sys.exit(7)
signal.signal(signal.SIGTERM, note)
signal.signal(signal.SIGINT, note)
print("ready", flush=True)
for _ in range(600):
    time.sleep(0.05)
"""


def plotted(tmp_path, text):
    """The command line that runs a program with a plot, and where its file will be."""
    program, file = tmp_path / "program.py", tmp_path / "memory.html"
    program.write_text(text)
    return [observed.binary(), "run", "--memory-plot", str(file), "--", sys.executable, str(program)], file


def read(file):
    """The data of a plot."""
    return json.loads(DATA.search(file.read_text(encoding="utf-8")).group(1))


def test_children_functions_and_collections_are_in_the_plot(tmp_path):
    words, file = plotted(tmp_path, WORK)
    env = observed.environment(PYTHONPATH=observed.ROOT / "python")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 3, done.stderr
    data = read(file)
    assert data["outcome"] == "exit code 3"
    peaks = sorted(max(process["rss"]) for process in data["processes"])
    assert len(peaks) == 2 and peaks[0] > 30_000_000 and peaks[1] > 40_000_000, data["processes"]
    assert all(len(process["rss"]) == len(data["at"]) for process in data["processes"])
    (call,) = [span for span in data["spans"] if span["name"] == "load"]
    assert 0.4 < call["to"] - call["from"] < data["seconds"]
    program = data["processes"][0]["pid"]
    assert call["pid"] == program
    fulls = [collection for collection in data["collections"] if collection["what"] == "full" and collection["pid"] == program]
    assert len(fulls) >= 3 and all(call["from"] < it["at"] < data["seconds"] for it in fulls[-3:]), data["collections"]
    # While the function runs, the program has what it has allocated.
    during = [rss for at, rss in zip(data["at"], data["processes"][0]["rss"]) if call["to"] - 0.2 < at < call["to"]]
    assert during and max(during) > 40_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_program_and_the_file_is_written(tmp_path, number):
    words, file = plotted(tmp_path, WAITING)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell starts commands in the background with interrupts ignored, and that is inherited.
    process = subprocess.Popen(words, **pipes, env=observed.environment(), preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (7, f"{number.name}\n"), err
    assert read(file)["outcome"] == "exit code 7"


def test_a_program_that_a_signal_ends_has_a_plot_and_the_command_ends_likewise(tmp_path):
    words, file = plotted(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=observed.environment())
    assert done.returncode == -signal.SIGKILL, done
    assert read(file)["outcome"] == "ended by SIGKILL"

"""`neurogc attach` and `neurogc detach`: processes that run already go on with the same results."""

import json
import os
import signal
import subprocess
import sys

import pytest

from observed import binary, environment, eventually, neurogc, socket_path

pytestmark = [pytest.mark.needs_agent, pytest.mark.skipif(not binary(), reason="the command is not built")]

WAITS = "import sys, time; print('ready', flush=True); sys.stdin.readline(); print('OK')"
RUNS = """
import os, sys
def work():
    x = 12345
    for _ in range(5000):
        x = (x * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return x
want = work()
print('ready', flush=True)
wrong = 0
os.set_blocking(0, False)
while not os.path.exists(sys.argv[1]):
    wrong += work() != want
print('OK' if not wrong else wrong)
"""


class Target:
    """A program without an agent."""

    def __init__(self, code, folder, *options, **env):
        self.stop = folder / "stop"
        own = {name: value for name, value in environment(**env).items() if name != "PYTHONPATH"}
        command = [sys.executable, *options, "-c", code, str(self.stop)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=own, text=True, **pipes)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ends(self):
        self.stop.touch()
        out, err = self.process.communicate("\n", timeout=20)
        assert (self.process.returncode, out, err) == (0, "OK\n", "")


@pytest.mark.parametrize("code", [WAITS, RUNS], ids=["waits", "runs"])
def test_the_agent_goes_in_and_out_twice_and_the_program_does_not_notice(code, tmp_path):
    with Target(code, tmp_path) as target:
        for _ in range(2):
            attached = neurogc("attach", target.pid, "--json")
            assert attached["attached"] and not attached["left_page"], attached
            status = eventually(lambda: json.loads(_status(target.pid)))
            assert (status["pid"], status["policy"]) == (target.pid, "observe")
            detached = neurogc("detach", target.pid, "--json")
            assert detached["detached"] and not detached["left_page"], detached
            assert not socket_path(target.pid).exists()
        target.ends()


def _status(pid):
    done = subprocess.run([binary(), "status", str(pid), "--json"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done
    return done.stdout


def test_a_process_with_an_agent_gets_another_policy_only(tmp_path):
    with Target(RUNS, tmp_path) as target:
        neurogc("attach", target.pid)
        eventually(lambda: _status(target.pid))
        assert "from observe to gap" in neurogc("attach", target.pid, "--policy", "gap")
        neurogc("detach", target.pid)
        target.ends()


def test_a_program_that_objects_is_left_alone(tmp_path):
    with Target(WAITS, tmp_path, PYTHON_DISABLE_REMOTE_DEBUG="1") as target:
        assert "does not want to be attached to" in neurogc("attach", target.pid, expect=1)
        target.ends()
    with Target(WAITS, tmp_path, "-X", "disable-remote-debug") as target:
        assert "does not want to be attached to" in neurogc("attach", target.pid, expect=1)


def test_a_stopped_process_and_one_without_python_are_refused(tmp_path):
    with Target(WAITS, tmp_path) as target:
        os.kill(target.pid, signal.SIGSTOP)
        eventually(lambda: "\nState:\tT" in open(f"/proc/{target.pid}/status").read())
        assert "kill -CONT" in neurogc("attach", target.pid, expect=1)
        os.kill(target.pid, signal.SIGCONT)
        target.ends()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            assert "no CPython" in neurogc("attach", sleeper.pid, expect=1)
        finally:
            sleeper.kill()

"""Programs without an agent, to attach to."""

import subprocess
import sys

from observed import environment

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

    def __init__(self, code, folder, *options, before=(), **env):
        self.stop = folder / "stop"
        own = {name: value for name, value in environment(**env).items() if name != "PYTHONPATH"}
        command = [*before, sys.executable, *options, "-c", code, str(self.stop)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=own, text=True, **pipes)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    @property
    def status(self):
        """What the kernel says."""
        return dict(line.split(":\t", 1) for line in open(f"/proc/{self.pid}/status").read().splitlines())

    @property
    def mappings(self):
        return open(f"/proc/{self.pid}/maps").read().count("\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ends(self):
        self.stop.touch()
        out, err = self.process.communicate("\n", timeout=20)
        assert (self.process.returncode, out, err) == (0, "OK\n", "")

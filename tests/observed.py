"""Running programs under the agent, and asking an agent for its status."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "python" / "neurogc"
APPS = Path(__file__).resolve().parent / "apps"

# What a shell does in the place of `neurogc run`, where the command has not been built.
_AS_RUN = 'NEUROGC_ROOT_PID=$$ exec "$@"'


# The beginning of a program that is told by lines on its stdin what to do. Its main thread runs some Python code every now
# and then, as it must for what is asked of it from outside.
TOLD_BY_LINES = """
import select, sys
def lines():
    while True:
        if select.select([sys.stdin], [], [], 0.01)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            yield line
"""


def environment(**extra):
    """The environment of an observed program: ours, without what tells this test run how to run."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    own["PYTHONDONTWRITEBYTECODE"] = "1"
    # On a busy machine a thread of the agent may be late to end before a fork, of which CPython warns. Tests that look at
    # that say so by -W, which counts for more.
    own["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"
    for name, value in extra.items():
        own[name] = str(value)
    if not binary():
        inherited = own.get("PYTHONPATH")
        own["PYTHONPATH"] = os.pathsep.join([str(HOME / "_inject"), *([inherited] if inherited else [])])
        own["NEUROGC_HOME"] = str(HOME)
    return own


def binary():
    """The `neurogc` command, where it has been built."""
    named = os.environ.get("NEUROGC_BIN")
    return named if named and os.access(named, os.X_OK) and (HOME / "_agent.abi3.so").exists() else None


def command(*words):
    """The command line that starts a command under the agent."""
    words = [str(word) for word in words]
    if binary():
        return [binary(), "run", "--", *words]
    return ["/bin/sh", "-c", _AS_RUN, "sh", *words]


def start(*words, cwd=None, stdin=None, **env):
    """Starts a command under the agent, its output captured."""
    return subprocess.Popen(
        command(*words),
        env=environment(**env),
        cwd=cwd,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*words, timeout=60, **options):
    """Runs a command under the agent to its end."""
    process = start(*words, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{words} did not end in {timeout} s\nstdout: {out}\nstderr: {err}") from None
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def python(code, *options, **keywords):
    """Runs Python code under the agent and expects it to succeed with nothing on stderr."""
    done = run(sys.executable, *options, "-c", code, **keywords)
    assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def stock(code, *words, timeout=60, expect=0):
    """Runs Python code without the agent and gives its output: what CPython by itself does."""
    env = {name: value for name, value in environment().items() if not name.startswith("NEUROGC_")}
    env["PYTHONPATH"] = ""
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode, done.stderr) == (expect, ""), done
    return done.stdout


class Running:
    """A program under the agent. When its time is over it is killed from outside, with all that it has started."""

    def __init__(self, code, *words, within=20, policy="gap", before=(), **env):
        self.process = subprocess.Popen(
            [*before, *command(sys.executable, "-c", code, *words)],
            env=environment(NEUROGC_POLICY=policy, **env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.within = within
        self.late = False
        self._watchdog = threading.Timer(within, self._is_late)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._watchdog.cancel()
        self._kill()
        self.process.communicate()

    def line(self):
        """The next line that the program prints."""
        line = self.process.stdout.readline()
        if not line:
            self.ends()
            raise AssertionError("the program has ended without the line")
        return line.strip()

    def say(self, line=""):
        """Gives the program a line to read."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ends(self, expect=0):
        """Waits for the end, in time, with this exit code and nothing on stderr; gives the rest of the output."""
        out, err = self.process.communicate()
        assert not self.late, f"the program hung: killed after {self.within} s\nstdout: {out}\nstderr: {err}"
        assert (self.process.returncode, err) == (expect, ""), f"exit {self.process.returncode}\n{out}\n{err}"
        return out

    def _is_late(self):
        self.late = True
        self._kill()

    def _kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def neurogc(*words, expect=0, timeout=60):
    """Runs the command; what it printed, as JSON where it can be. Where nothing is expected, any exit code will do."""
    done = subprocess.run([binary(), *map(str, words)], capture_output=True, text=True, timeout=timeout)
    assert expect is None or done.returncode == expect, done
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def socket_path(pid):
    """Where the agent of a process listens."""
    return Path(f"/tmp/neurogc-{os.getuid()}/{pid}.sock")


def ask(pid):
    """The status report of a process, through its socket."""
    answer = answer_to(pid, "status")
    assert "status" in answer, answer
    return answer["status"]


def answer_to(pid, what):
    """The answer of a process to any question, through its socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(socket_path(pid)))
        question = json.dumps({"protocol": 1, "ask": what}).encode()
        connection.sendall(struct.pack("<I", len(question)) + question)
        (length,) = struct.unpack("<I", _exactly(connection, 4))
        return json.loads(_exactly(connection, length))


def _exactly(connection, count):
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        assert part, "the agent closed the connection"
        received += part
    return received


def eventually(look, *, within=20, what="the expected state"):
    """The first true value of `look`, asked again and again until the deadline. `OSError` means "not yet"."""
    deadline = time.monotonic() + within
    seen = None
    while time.monotonic() < deadline:
        try:
            seen = look()
            if seen:
                return seen
        except (OSError, AssertionError) as error:
            seen = error
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come within {within} s; last seen: {seen!r}")

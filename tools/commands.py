"""Commands that show what they say while they run, and leave nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from interpreters import ROOT


def streamed(command: list[str], env: dict[str, str], limit: float | None = None) -> tuple[int, str]:
    """Runs a command, shows its output as it comes, and gives its exit code and output."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    if limit is not None:
        signal.signal(signal.SIGALRM, lambda *_: end(process))
        signal.alarm(int(limit))
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
        return process.wait(), "".join(lines)
    finally:
        signal.alarm(0)
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Stops the command and what it started, if anything of it is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

"""Processes that `check.py` starts: each plays one role, under the agent or without it."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECK = Path(__file__).with_name("check.py")
ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "python" / "neurogc"
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fast" / "neurogc"
AT_ONCE = 8


def observed(*role, cwd=None, agent=True, check=True, timeout=240):
    """Runs one role of this file in a process of its own, under the agent unless that is not wanted."""
    words = [sys.executable, CHECK, "--role", *map(str, role)]
    try:
        done = subprocess.run(words, env=environment(agent), cwd=cwd, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        if not check:
            raise
        return {"error": f"it did not end in {error.timeout} s"}
    if check and (done.returncode or not done.stdout.strip()):
        return {"error": done.stderr[-1500:] or "it printed nothing"}
    return json.loads(done.stdout.splitlines()[-1]) if check else done


def environment(agent):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    if agent:
        own.update(PYTHONPATH=str(HOME / "_inject"), NEUROGC_HOME=str(HOME), NEUROGC_POLICY="observe")
        own["NEUROGC_HUGE_ARENAS"] = "false"
    return own


def at_once(work, names, many=AT_ONCE):
    """The rows of all of these. One that fails is a row, too."""

    def guarded(name):
        try:
            return work(name)
        except Exception as error:
            return {"name": str(name), "ok": False, "error": f"{type(error).__name__}: {error}"[-1500:]}

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(guarded, names))

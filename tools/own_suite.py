"""`make fleet`, `make frameworks`, `make training`: tests that need packages of their own, in an environment made for them.

    own_suite.py fleet [arguments of pytest]

The packages are in tests/NAME/requirements.txt; those in requirements-bare.txt, where there is one, are installed without what
they need. The environment is made for CPython 3.12, or for the newest interpreter found. A server that the fleet's tests need and
that is not installed is a failure; NEUROGC_MISSING=skip leaves it out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import interpreters
from interpreters import ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def main() -> int:
    """Runs one folder of tests."""
    if len(sys.argv) < 2 or not (ROOT / "tests" / sys.argv[1] / "requirements.txt").is_file():
        print(__doc__)
        return 2
    name = sys.argv[1]
    python = environment(name)
    env = {it: value for it, value in os.environ.items() if not it.startswith(("PYTHON", "NEUROGC_"))}
    env |= {"NEUROGC_SUITE": name, "NEUROGC_BIN": str(TARGET / "fast" / "neurogc")}
    env |= {name: value for name, value in os.environ.items() if name == "NEUROGC_MISSING"}
    env["PATH"] = f"{python.parent}:{env['PATH']}"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5", f"tests/{name}", *sys.argv[2:]]
    return subprocess.run(command, cwd=ROOT, env=env).returncode


def environment(name: str) -> Path:
    """The interpreter of an environment with the packages, which is made where it is not there or they have changed."""
    files = [it for it in (ROOT / "tests" / name / f"requirements{kind}.txt" for kind in ("", "-bare")) if it.is_file()]
    wanted = "".join(file.read_text() for file in files)
    folder = TARGET / f"suite-{name}"
    stamp = folder / "made-from"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"{name}: making an environment", flush=True)
        subprocess.run([interpreter(), "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        for file in files:
            subprocess.run([*pip, *(["--no-deps"] if file.stem.endswith("-bare") else []), "-r", file], check=True)
        stamp.write_text(wanted)
    return folder / "bin" / "python"


def interpreter() -> str:
    """CPython 3.12, for which all of these packages have wheels, or the newest there is."""
    found = sorted((it for it in interpreters.find() if it.supported and it.venv), key=lambda it: it.numbers)
    if not found:
        sys.exit("own_suite: there is no CPython from 3.10 on")
    return str(next((it for it in found if it.numbers[:2] == (3, 12)), found[-1]).executable)


if __name__ == "__main__":
    sys.exit(main())

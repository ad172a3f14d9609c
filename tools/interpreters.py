"""Finds the Python interpreters of this machine and makes one virtual environment for each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / ".venvs"
REQUIREMENTS = ROOT / "tests" / "requirements.txt"
STAND_IN = ROOT / "tests" / "requirements-stand-in.txt"
"""What the tests of the stand-in need, for interpreters without an extension."""

SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
"""Minor versions of CPython with a GIL that must be tested."""

PROBE = """
import importlib.util, json, sys, sysconfig
print(json.dumps({
    "name": sys.implementation.name,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "executable": sys.executable,
    "venv": all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One interpreter to test with."""

    executable: str
    name: str
    version: str
    free_threaded: bool
    venv: bool

    @property
    def minor(self) -> str:
        """Its version without the last part."""
        return self.version.rpartition(".")[0]

    @property
    def supported(self) -> bool:
        """Whether it is one of those that everything must work on. The first 3.14s have another collector."""
        other_collector = (3, 14, 0) <= self.numbers < (3, 14, 5)
        return self.name == "cpython" and not self.free_threaded and not other_collector and self.minor in SUPPORTED

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its version, to compare."""
        return tuple(map(int, self.version.split(".")))

    @property
    def title(self) -> str:
        """What a person calls it."""
        name = {"cpython": "CPython", "pypy": "PyPy"}.get(self.name, self.name)
        return f"{name} {self.version}{' free-threaded' if self.free_threaded else ''}"

    @property
    def tag(self) -> str:
        """Its kind: of each there is one, unless more are named."""
        digits = self.minor.replace(".", "")
        return {"cpython": "cp", "pypy": "pp"}.get(self.name, self.name) + digits + ("t" if self.free_threaded else "")

    @property
    def order(self) -> tuple[bool, tuple[int, ...], bool]:
        """Supported ones first, older ones first."""
        return not self.supported, self.numbers, self.free_threaded


def find() -> list[Interpreter]:
    """All interpreters from 3.10 on: one of each kind, and every one that NEUROGC_TEST_PYTHONS names."""
    named = [probe(path) for path in os.environ.get("NEUROGC_TEST_PYTHONS", "").split(os.pathsep) if path]
    chosen = {it.executable: it for it in named if it is not None}
    kinds = {it.tag for it in chosen.values()}
    best: dict[str, Interpreter] = {}
    for path in candidates():
        found = probe(path)
        if found is None or found.tag in kinds:
            continue
        rival = best.get(found.tag)
        if rival is None or (found.venv, found.numbers) > (rival.venv, rival.numbers):
            best[found.tag] = found
    return sorted([*chosen.values(), *best.values()], key=lambda it: it.order)


def candidates() -> list[str]:
    """Executables that may be interpreters, without asking them."""
    names = [f"python{minor}{threads}" for minor in SUPPORTED for threads in ("", "t")] + ["python3", "pypy3"]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    folders += sorted((Path.home() / ".cache" / "neurogc" / "cpythons").glob("*/bin"))
    paths = [folder / name for folder in folders if folder.name != "shims" for name in names]
    unique = {os.path.realpath(path): str(path) for path in reversed(paths) if os.access(path, os.X_OK)}
    return list(unique.values())


def probe(executable: str) -> Interpreter | None:
    """What the interpreter says of itself; nothing where it is too old, broken or none at all."""
    try:
        done = subprocess.run(
            [executable, "-I", "-c", PROBE], capture_output=True, text=True, timeout=30, cwd="/", check=True
        )
        found = Interpreter(**json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        if executable in os.environ.get("NEUROGC_TEST_PYTHONS", "").split(os.pathsep):
            print(f"test: NEUROGC_TEST_PYTHONS names {executable}, which is no working Python")
        return None
    return found if found.numbers >= (3, 10) else None


def environment(interpreter: Interpreter, name: str | None = None, requirements: Path | None = None) -> Path:
    """The Python of the interpreter's virtual environment, which is made when it is not there or out of date."""
    requirements = requirements or (REQUIREMENTS if interpreter.supported else STAND_IN)
    folder = VENVS / (name or f"{interpreter.tag}-{interpreter.version}")
    python = folder / "bin" / "python"
    origin = [interpreter.executable, interpreter.version, requirements.read_text()]
    wanted = hashlib.sha256(json.dumps(origin).encode()).hexdigest()
    stamp = folder / "made-from"
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    print(f"making {folder.relative_to(ROOT)} for {interpreter.title} ({interpreter.executable})", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter.executable, "-m", "venv", str(folder)], check=True)
    install(python, requirements)
    stamp.write_text(wanted)
    return python


def install(python: Path, requirements: Path) -> None:
    """Installs what the tests need, as wheels. What has no wheel for this interpreter is named and left out."""
    quietly = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    pip = [str(python), "-m", "pip", "install", *quietly, "--only-binary=:all:"]
    if subprocess.run([*pip, "-r", str(requirements)], stderr=subprocess.DEVNULL).returncode != 0:
        for line in requirements.read_text().splitlines():
            name = line.partition("#")[0].strip()
            if name and subprocess.run([*pip, name], stderr=subprocess.DEVNULL).returncode != 0:
                if name == "pytest":
                    sys.exit(f"test: pytest cannot be installed for {python}: is a package index reachable?")
                print(f"test: {name} has no wheel for {python}: its tests are skipped there", flush=True)
    # Skips the packages' own tests and translations: they would take half of the time and are not imported here.
    compiler = [str(python), "-m", "compileall", "-q", "-x", "/(tests?|locale|pip)/", "."]
    subprocess.run(compiler, cwd=python.parent.parent / "lib", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

"""The package as a user gets it: a source archive that is complete, and `pip install` of it in a fresh environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from interpreters import ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

UNPACKED = TARGET / "source-archive"
"""Where the archive is unpacked: always the same place, so that what has not changed is not compiled again."""

PROGRAM = (
    "import gc, neurogc, neurogc._agent, platform; gc.collect(); report = neurogc.status(); print('policy', report['policy']); "
    "assert platform.machine() not in ('x86_64', 'aarch64') or report['allocations']['mode'] == 'native', report['allocations']"
)

PLUGIN = (
    "from importlib import metadata, util; [entry] = metadata.entry_points(group='pytest11', name='neurogc'); "
    "assert util.find_spec(entry.value), entry"
)

ENGINES = (
    "from importlib import metadata; groups = ('vllm.general_plugins', 'sglang.srt.plugins'); "
    "[entry.load()() for group in groups for entry in [*metadata.entry_points(group=group, name='neurogc')] or [None]]"
)


def checks(python: str) -> list[tuple[str, bool]]:
    """Name of each check, and whether it held."""
    with tempfile.TemporaryDirectory(prefix="neurogc-package-") as folder:
        place = Path(folder)
        held = [("a source archive holds the whole workspace", attempt(lambda: source_archive(python, place)))]
        title = "pip install of the source archive works in a fresh environment"
        if not held[0][1] or not attempt(lambda: install(python, place)):
            return [*held, (title, False)]
        held.append((title, True))
        binaries = place / "venv" / "bin"
        held += [
            ("the neurogc command says its version", attempt(lambda: run([binaries / "neurogc", "--version"], place))),
            ("pytest finds the plugin", attempt(lambda: run([binaries / "python", "-c", PLUGIN], place))),
            ("engines find theirs", attempt(lambda: run([binaries / "python", "-c", ENGINES], place))),
            ("import neurogc works", attempt(lambda: run([binaries / "python", "-c", "import neurogc"], place))),
            (
                "neurogc run starts a program under the agent",
                attempt(lambda: run([binaries / "neurogc", "run", "--", binaries / "python", "-c", PROGRAM], place)),
            ),
        ]
        return held


def attempt(action: Callable[[], None]) -> bool:
    """Whether the action ended without an error, which is printed."""
    try:
        action()
    except (OSError, AssertionError, subprocess.SubprocessError) as error:
        print(f"test: {error}", flush=True)
        return False
    return True


def run(command: list[object], place: Path) -> None:
    """Runs a command outside of the repository, so that only what is installed is found."""
    words = list(map(str, command))
    print(f"test: {' '.join(words)}", flush=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    subprocess.run(words, check=True, cwd=place, env=own, timeout=60)


# With the optimizations of the tests' own build, most of which is then used again: a release takes minutes to compile.
AS_BUILT = {"SETUPTOOLS_RUST_CARGO_PROFILE": "fast", "PYO3_PYTHON": "python3", "CARGO_TARGET_DIR": str(TARGET)}


def install(python: str, place: Path) -> None:
    """`pip install .` as in the README, in the unpacked archive; the workspace's target folder is used again."""
    subprocess.run([python, "-m", "venv", str(place / "venv")], check=True)
    print("test: pip install . (the source archive, in a fresh virtual environment)", flush=True)
    # What runs beside it may judge time.
    command = ["nice", str(place / "venv" / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", str(unpacked())]
    subprocess.run(command, check=True, timeout=1800, env={**os.environ, **AS_BUILT})


def unpacked() -> Path:
    """The one folder in the unpacked archive."""
    [source] = UNPACKED.iterdir()
    return source


def source_archive(python: str, place: Path) -> None:
    """Builds the source archive and lets Cargo read the workspace inside it."""
    subprocess.run([python, "-m", "venv", str(place / "maker")], check=True)
    maker = place / "maker" / "bin" / "python"
    needs = ["setuptools>=77", "setuptools-rust>=1.13"]
    subprocess.run([maker, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs], check=True)
    print("test: building the source archive", flush=True)
    code = "import setuptools.build_meta as it, sys; print(it.build_sdist(sys.argv[1]))"
    subprocess.run([maker, "-c", code, str(place)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    [archive] = place.glob("neurogc-*.tar.gz")
    with tarfile.open(archive) as members:
        names = members.getnames()
        shutil.rmtree(UNPACKED, ignore_errors=True)
        members.extractall(UNPACKED, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    stray = [name for name in names if name.endswith((".so", ".pyc"))]
    assert not stray, f"built files in the source archive: {stray}"
    source = unpacked()
    for needed in ("README.md", "LICENSE-MIT", "python/neurogc/__init__.py", "python/neurogc/_inject/sitecustomize.py",
                   "python/neurogc_pytest.py",
                   "python/neurogc/models/classic.safetensors"):
        assert (source / needed).is_file(), f"{needed} is not in the source archive"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--no-deps"]
    subprocess.run(command, check=True, cwd=source, stdout=subprocess.DEVNULL)

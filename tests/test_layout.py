"""The agent's table of offsets against the real headers of this interpreter."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import neurogc
import pytest

OFFSETS = Path(__file__).resolve().parent / "layout" / "offsets.c"

needs_agent = pytest.mark.needs_agent


def headers():
    """The folder of this interpreter's headers, with CPython's internal ones."""
    folder = Path(sysconfig.get_paths()["include"])
    if not folder.is_absolute() or not (folder / "internal").is_dir():
        # An interpreter that was moved after it was built.
        moved = Path(os.path.realpath(sys.executable)).parent.parent / "include" / folder.name
        folder = moved if (moved / "internal").is_dir() else folder
    return folder


def real_offsets(folder):
    """Compiles and runs the program that prints the offsets."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler: install gcc"
    program = folder / "offsets"
    subprocess.run([compiler, f"-I{headers()}", "-o", program, OFFSETS], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    return {name: int(value) for name, value in (line.split("=") for line in lines)}


@needs_agent
@pytest.mark.skipif(not (headers() / "internal").is_dir(), reason="this interpreter has no internal headers")
def test_every_offset_is_that_of_the_headers(tmp_path):
    known = dict(neurogc._native.agent.layout())
    assert known, "this interpreter is supported, so it has a table"
    assert known == real_offsets(tmp_path)


@needs_agent
def test_nothing_is_degraded_on_a_supported_interpreter(_installed):
    assert neurogc.status()["degraded"] == []

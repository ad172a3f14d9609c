"""Others' work: programs that were not written to show anything about us.

pyperformance's gc_collect, gc_traversal, async_tree and django_template, each in a process of its own as pyperf starts
them, and where mypy is installed, a type-checker run over a package of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import stage

# The name of the benchmark and what it is asked for.
BENCHMARKS = {
    "gc_collect": [],
    "gc_traversal": [],
    "async_tree": ["none"],
    "async_tree_io": ["io"],
    "django_template": [],
}
SCRIPTS = {"async_tree_io": "async_tree"}


def benchmark_folder() -> pathlib.Path | None:
    """Where pyperformance keeps its benchmarks."""
    spec = importlib.util.find_spec("pyperformance")
    if spec is None or spec.origin is None or importlib.util.find_spec("pyperf") is None:
        return None
    return pathlib.Path(spec.origin).parent / "data-files" / "benchmarks"


def inherited() -> str:
    """Names of the variables that pyperf's workers need, too."""
    return ",".join(name for name in os.environ if name.startswith(("NEUROGC_", "PYTHON", "SCENE_")))


def pyperf_seconds(script: pathlib.Path, words: list[str]) -> float | None:
    """The mean of a benchmark's values; none where it cannot run here."""
    with tempfile.TemporaryDirectory(prefix="neurogc-peers-") as folder:
        result = pathlib.Path(folder, "result.json")
        command = [sys.executable, str(script), *words, "--processes", "1", "--values", "3", "--warmups", "1",
                   "--loops", "1", "--quiet", "--inherit-environ", inherited(), "-o", str(result)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        if done.returncode or not result.exists():
            return None
        runs = json.loads(result.read_text())["benchmarks"][0]["runs"]
        values = [value for run in runs for value in run.get("values", [])]
        return sum(values) / len(values)


def mypy_seconds() -> float | None:
    """A type-checker run without its cache; none where it finds fault."""
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", os.devnull, "-p", "mypy.plugins"]
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    return None if done.returncode else time.perf_counter() - began


def step() -> dict[str, float]:
    """Each program once; their times in milliseconds."""
    times = {}
    folder = benchmark_folder()
    if folder is not None:
        for name, words in BENCHMARKS.items():
            script = folder / f"bm_{SCRIPTS.get(name, name)}" / "run_benchmark.py"
            seconds = pyperf_seconds(script, words) if script.exists() else None
            if seconds is not None:
                times[name] = seconds * 1000
    seconds = mypy_seconds() if importlib.util.find_spec("mypy") is not None else None
    if seconds is not None:
        times["mypy"] = seconds * 1000
    return times


if __name__ == "__main__":
    stage.begin()
    if stage.COLLECTOR:
        stage.skip("its programs choose their collector themselves: only Python's own and NeuroGC's policies fit")
    if benchmark_folder() is None and importlib.util.find_spec("mypy") is None:
        stage.skip("neither pyperformance nor mypy is installed: pip install pyperformance mypy")
    stage.loaded()
    # Once through is enough: each program repeats itself.
    stage.run_loop(step, seconds=0.001)

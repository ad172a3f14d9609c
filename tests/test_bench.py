"""`neurogc bench` and `neurogc demo`, end to end, and that they leave no process behind however they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import observed
import pytest

NEUROGC = observed.binary()
pytestmark = [
    pytest.mark.needs_agent,
    # The command is the same whatever interpreter it measures.
    pytest.mark.once,
    pytest.mark.skipif(not NEUROGC, reason="the command is not built, or NEUROGC_BIN does not name it"),
]


def start(*words, **options):
    """The command, with its output captured."""
    return subprocess.Popen(
        [NEUROGC, *map(str, words), "--python", sys.executable],
        # Not that of an observed program: some trials run without us.
        env={name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def children_of(folder):
    """Processes that run a script of this run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


def first_line(process, word):
    """Reads until a line has the word."""
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"{word!r} never came: {process.stderr.read()}")


def test_a_quick_bench_gives_figures_and_reports(tmp_path):
    bench = start("bench", "acyclic", "--runs", 1, "--quick", "--policies", "default,off,gap", "--json", "--out",
                  tmp_path / "run")
    out, err = bench.communicate(timeout=120)
    assert bench.returncode == 0, err
    [scenario] = json.loads(out)["scenarios"]
    figures = {entry["contender"]: entry["trials"][0]["figures"] for entry in scenario["entries"]}
    assert set(figures) == {"default", "off", "gap"}
    assert figures["off"]["full_count"] == 0 and figures["default"]["full_count"] > 0
    assert all(each["time_ms"] > 0 and each["rss_peak"] > 0 for each in figures.values())
    assert (tmp_path / "run" / "report.html").stat().st_size > 3000
    assert "100 %" in err


def test_memory_is_kept_over_time(tmp_path):
    bench = start("bench", "heavy-objects", "--seconds", 1, "--runs", 1, "--policies", "default,gap", "--json", "--out",
                  tmp_path / "run")
    out, err = bench.communicate(timeout=120)
    assert bench.returncode == 0, err
    [scenario] = json.loads(out)["scenarios"]
    for [trial] in (entry["trials"] for entry in scenario["entries"]):
        assert len(trial["courses"]["rss"]) >= 3 and trial["courses"]["tree"]
        assert {"rss_trend", "all_peak", "stop_max_ms", "per_second"} <= set(trial["figures"])
    for name in ("memory", "memory-tree"):
        assert (tmp_path / "run" / "plots" / f"heavy-objects-{name}.svg").read_text().count("<polyline") == 2


# In a container of little memory a service that gets too little of the processor may be killed.
@pytest.mark.parametrize("name", ["saturated", "contended", "one-core", "large-heap",
                                  pytest.param("container-tight", marks=pytest.mark.timing)])
def test_a_service_without_rest_is_measured_wherever_it_runs(tmp_path, name):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    bench = start("bench", name, "--runs", 1, "--quick", "--policies", "default", "--json", "--out", tmp_path / "run")
    out, err = bench.communicate(timeout=180)
    assert bench.returncode == 0, err
    [scenario] = json.loads(out)["scenarios"]
    if scenario["skipped"]:
        assert "cgroup" in scenario["skipped"] or "two cores" in scenario["skipped"]
        return
    figures = scenario["entries"][0]["trials"][0]["figures"]
    assert figures["per_second"] > 10 and figures["failed"] == 0 and figures["rss_peak"] > 0
    if name == "container-tight":
        assert figures["killed"] == 0 and 0 < figures["group_peak"] <= scenario["limit"]
        assert not list(Path("/sys/fs/cgroup").glob(f"**/neurogc-bench-{bench.pid}-*")), "a cgroup was left behind"


@pytest.mark.timing
def test_a_service_is_driven_and_measured(tmp_path):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    bench = start("bench", "attribution", "--runs", 1, "--quick", "--policies", "default,each,gap", "--json", "--out",
                  tmp_path / "run")
    out, err = bench.communicate(timeout=180)
    assert bench.returncode == 0, err
    [scenario] = json.loads(out)["scenarios"]
    assert scenario["capacity"] > 10
    figures = {entry["contender"]: entry["trials"][0]["figures"] for entry in scenario["entries"]}
    for each in figures.values():
        assert each["failed"] == 0
        assert 0 < each["p50_ms"] <= each["p99_ms"] <= each["max_ms"] * 1.01
        assert each["unanswered"] == 0
    for name in ("default", "gap"):
        # Both met the same load.
        assert figures[name]["per_second"] == pytest.approx(scenario["capacity"] * 0.6, rel=0.5)
    assert figures["each"]["garbage"] <= figures["default"]["garbage"] + 1000


@pytest.mark.timing
def test_a_short_demo_shows_both_sides_and_leaves_a_report(tmp_path):
    folder = tmp_path / "demo"
    demo = start("demo", "--seconds", 5, "--out", folder)
    began = time.monotonic()
    line = first_line(demo, "with NeuroGC: slowest")
    assert time.monotonic() - began < 15, "the first numbers come within fifteen seconds"
    assert "without: slowest" in line
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    assert "WITHOUT" in out and "GC in requests" in out and str(folder / "report.html") in out
    assert (folder / "report.html").read_text().count("<svg") >= 3
    run = json.loads((folder / "run.json").read_text())
    assert [entry["contender"] for entry in run["scenarios"][0]["entries"]] == ["default", "auto"]
    assert children_of(folder) == []


def test_a_demo_can_be_told_as_json(tmp_path):
    told = []
    for words in [("--seconds", 2), ("leak", "--seconds", 6)]:
        demo = start("demo", *words, "--out", tmp_path / str(len(told)), "--json")
        out, err = demo.communicate(timeout=60)
        assert demo.returncode == 0, err
        told.append(json.loads(out))
    collections, leak = told
    assert [entry["contender"] for entry in collections["run"]["scenarios"][0]["entries"]] == ["default", "auto"]
    assert (tmp_path / "0" / "report.html").samefile(collections["report"])
    assert leak["leaks"]["rss"] > 0 and leak["without_the_leak"]["rss"] > 0


def test_a_demo_of_a_leak_shows_the_verdicts_on_both_services(tmp_path):
    folder = tmp_path / "demo"
    demo = start("demo", "leak", "--seconds", 15, "--out", folder)
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    assert "without the leak" in out and out.count(" resident, ") == 2, out
    assert children_of(folder) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("when", ["starting", "s   without"])
def test_the_demo_leaves_no_process_behind(tmp_path, how, when):
    folder = tmp_path / "demo"
    # A session of its own, so that only the command gets the signal.
    demo = start("demo", "--seconds", 60, "--out", folder, start_new_session=True)
    first_line(demo, when)
    observed.eventually(lambda: children_of(folder / "scenarios"), what="the services")
    demo.send_signal(how)
    demo.communicate(timeout=20)
    assert demo.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    observed.eventually(lambda: not children_of(folder / "scenarios"), what="the end of both services")


def test_an_interrupted_bench_keeps_what_it_has(tmp_path):
    folder = tmp_path / "run"
    bench = start("bench", "acyclic", "--quick", "--runs", 50, "--policies", "default", "--out", folder)
    observed.eventually((folder / "run.json").exists, what="the first trial", within=60)
    bench.send_signal(signal.SIGINT)
    _, err = bench.communicate(timeout=30)
    assert bench.returncode == 130 and "interrupted" in err
    assert json.loads((folder / "run.json").read_text())["scenarios"][0]["entries"][0]["trials"]
    assert (folder / "report.html").exists()
    observed.eventually(lambda: not children_of(folder / "scenarios"), what="the end of the script")

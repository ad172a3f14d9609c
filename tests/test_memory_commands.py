"""`neurogc memory` on real processes: sites, growth, flame graphs, recordings, traces, and what the hub gives out."""

import json
import os
import subprocess
import sys

import pprof
import pytest
from observed import TOLD_BY_LINES, eventually, start

BINARY = os.environ.get("NEUROGC_BIN")


def settings():
    done = subprocess.run([BINARY, "doctor", "--json", "--python", sys.executable], capture_output=True, text=True)
    return {setting["name"] for setting in json.loads(done.stdout)["settings"]} if done.stdout else set()


SAMPLES = bool(BINARY) and "allocations" in settings()

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not BINARY, reason="NEUROGC_BIN does not name the built command"),
    pytest.mark.skipif(not SAMPLES, reason="allocations are not sampled in this build"),
]

GROWS = (
    TOLD_BY_LINES
    + """
kept = []
def keep(megabytes):
    for _ in range(megabytes):
        kept.append([bytes(100) for _ in range(8000)])
def large(megabytes):
    kept.append(bytearray(megabytes << 20))
print("ready", flush=True)
for line in lines():
    what, size = line.split()
    {"keep": keep, "large": large}[what](int(size))
    print("done", flush=True)
"""
)
KEEP_LINE = 1 + GROWS.splitlines().index("        kept.append([bytes(100) for _ in range(8000)])")


def neurogc(*words, code=0):
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def tell(process, *words):
    process.stdin.write(" ".join(map(str, words)) + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@pytest.fixture
def program(tmp_path):
    script = tmp_path / "grows.py"
    script.write_text(GROWS)
    process = start(sys.executable, script, stdin=subprocess.PIPE, NEUROGC_TRACE=tmp_path / "t.ngct")
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    process.wait(30)


def lines(report):
    """Live and grown bytes by line of the program. A comprehension is a function of its own up to CPython 3.11."""
    found = {}
    for row in report["rows"]:
        for place in row["places"][:1]:
            if place["file"].endswith("grows.py"):
                sums = found.setdefault(place["line"], dict.fromkeys(("live_bytes", "growth_bytes"), 0))
                for name in sums:
                    sums[name] += row.get(name) or 0
    return found


def test_live_memory_is_booked_to_its_line(program):
    tell(program, "keep", 40)
    report = json.loads(neurogc("memory", "sites", program.pid, "--json", "--top", 500))
    live = lines(report)[KEEP_LINE]["live_bytes"]
    # 8000 objects of 133 bytes, which the allocator rounds up to 144, and a list of 64 KB: 1.2 MB each.
    assert 0.7 * 40 * 1.2e6 < live < 1.3 * 40 * 1.2e6
    assert f"grows.py:{KEEP_LINE} in" in neurogc("memory", "sites", program.pid)
    assert f"process {program.pid}" in neurogc("memory", program.pid)


def test_a_recording_shows_what_grew(program, tmp_path):
    tell(program, "keep", 10)
    for name in ("a.pb.gz", "b.json"):
        neurogc("memory", "record", program.pid, "--for", "1s", "-o", tmp_path / name)
        tell(program, "keep", 30)
    report = json.loads(neurogc("memory", "diff", tmp_path / "a.pb.gz", tmp_path / "b.json", "--json"))
    assert lines(report)[KEEP_LINE]["growth_bytes"] > 20e6
    assert report["rows"][0]["places"][0]["line"] == KEEP_LINE


def test_another_reader_reads_a_recording(program, tmp_path):
    tell(program, "keep", 30)
    neurogc("memory", "record", program.pid, "--for", "1s", "-o", tmp_path / "a.pb.gz")
    report = json.loads(neurogc("memory", "sites", program.pid, "--json", "--top", 500))
    profile = pprof.read((tmp_path / "a.pb.gz").read_bytes())
    assert profile["types"][1] == ("inuse_space", "bytes") and profile["duration_nanos"] >= 900_000_000, profile["types"]
    found = [it for it in profile["samples"] if it["stack"][0][:2] == [str(tmp_path / "grows.py"), KEEP_LINE]]
    assert all("keep" in [function for _, _, function in it["stack"]] for it in found)
    live = sum(it["values"]["inuse_space"] for it in found)
    # Nothing was allocated on this line since.
    assert live == lines(report)[KEEP_LINE]["live_bytes"] > 20e6
    assert {it["labels"]["domain"] for it in profile["samples"]} <= {"object", "raw", "malloc", "mmap"}


def test_names_of_other_tools_are_understood(program, tmp_path):
    tell(program, "keep", 10)
    by_name = [json.loads(neurogc("memory", "sites", program.pid, "--json", "--by", by)) for by in ("domain", "type-of-allocator")]
    rows = [[row["domains"] for row in report["rows"]] for report in by_name]
    assert rows[0] == rows[1] and len(rows[0]) >= 2
    for name in ("table", "memray", "memray-like"):
        text = neurogc("memory", "record", program.pid, "--for", "1s", "--format", name, "-o", "-")
        assert "STACK" in text and f"grows.py:{KEEP_LINE} in" in text


def test_a_flame_graph_holds_the_stack(program, tmp_path):
    tell(program, "keep", 20)
    neurogc("memory", "flame", program.pid, "-o", tmp_path / "f.html")
    page = (tmp_path / "f.html").read_text()
    assert '"function":"keep"' in page
    assert page.count("</script>") == 2


def test_a_trace_keeps_the_sites_of_a_process_that_has_ended(program, tmp_path):
    tell(program, "keep", 40)
    program.stdin.close()
    assert program.wait(30) == 0
    report = json.loads(neurogc("memory", "sites", tmp_path / "t.ngct", "--json", "--top", 500))
    assert lines(report)[KEEP_LINE]["live_bytes"] > 20e6
    assert json.loads(neurogc("trace", "show", "--json", tmp_path / "t.ngct"))["sites"]["tables"] >= 1


def test_sampling_that_is_off_says_so():
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    process = start(sys.executable, "-c", code, stdin=subprocess.PIPE, NEUROGC_ALLOCATIONS="off")
    assert process.stdout.readline() == "ready\n"
    try:
        eventually(lambda: "off" in neurogc("memory", "sites", process.pid, code=1))
    finally:
        process.stdin.close()
        process.wait(30)

"""`neurogc memory PID` on real programs that leak, or look as if they did: kind, holder and line within three minutes."""

import json
import os
import subprocess
import sys
import time

import pytest
from observed import start

BINARY = os.environ.get("NEUROGC_BIN")
WITHIN_S = 185

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not BINARY, reason="NEUROGC_BIN does not name the built command"),
    pytest.mark.once,
    pytest.mark.long(186),
]

# What each program does a hundred times in a second; its name is that of its module.
PROGRAMS = {
    "globaldict": """
import collections
seen, records = {}, collections.deque(maxlen=3000)
def work(number):
    for part in range(3):
        seen[(number, part)] = [number, "x" * 300 + str(number)]  # LINE
    records.append(str(number) * 20)
""",
    "cached": """
import functools
@functools.lru_cache(maxsize=None)
def work(number):
    return {"number": number, "text": "y" * 700 + str(number)}  # LINE
""",
    "errors": """
failed = []
def work(number):
    try:
        raise ValueError("z" * 500 + str(number))  # LINE
    except ValueError as error:
        failed.append(error)
""",
    "files": """
import os
handles = []
def work(number):
    if number % 20 == 0:
        handles.append(open(os.devnull))  # LINE
""",
    "healthy": """
import collections, functools
recent, churn = collections.deque(maxlen=8000), []
@functools.lru_cache(maxsize=9000)
def cached(number):
    return [number, "v" * 200 + str(number)]
warm = {}
def work(number):
    cached(number)
    recent.append([number] * 10)
    if number < 3000:
        warm[number] = [number] * 20
    churn.append(["w" * 100 + str(number)])
    if len(churn) > 4000:
        churn.clear()
""",
}
EXPECTED = {
    "globaldict": ("unbounded_container", "globaldict.seen"),
    "cached": ("unbounded_cache", "cached.work.<dict>"),
    "errors": ("stored_exceptions", "errors.failed"),
    "files": ("descriptors", "files.handles"),
}
MAIN = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
work = __import__(sys.argv[1]).work
number, began = 0, time.monotonic()
while True:
    work(number)
    number += 1
    time.sleep(max(0.0, began + number / 100 - time.monotonic()))
"""


def verdict(process):
    words = [BINARY, "memory", str(process.pid), "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout)


def alarms(report):
    return [(it["kind"], it["holder"], it["site"]) for it in report["findings"] if is_leak(it)]


def is_leak(finding):
    return finding["confidence"] >= 0.6 and finding["text"].startswith(("Leak", "Fragmentation"))


def test_leaks_are_named_within_three_minutes_and_nothing_else_is(tmp_path):
    (tmp_path / "main.py").write_text(MAIN)
    running = {}
    try:
        for name, source in PROGRAMS.items():
            (tmp_path / f"{name}.py").write_text(source)
            running[name] = start(sys.executable, tmp_path / "main.py", name)
        missing, deadline = set(EXPECTED), time.monotonic() + WITHIN_S
        reports = {}
        while time.monotonic() < deadline:
            time.sleep(5)
            reports = {name: verdict(process) for name, process in running.items()}
            assert alarms(reports["healthy"]) == [], reports["healthy"]["findings"]
            for name in list(missing):
                line = 1 + next(at for at, text in enumerate(PROGRAMS[name].splitlines()) if "# LINE" in text)
                found = alarms(reports[name])[:1]
                if found and found[0][:2] == EXPECTED[name] and f"{name}.py:{line} in " in found[0][2]:
                    missing.discard(name)
        assert not missing, {name: reports[name]["findings"] for name in missing}
        shown = subprocess.run([BINARY, "memory", str(running["globaldict"].pid)], capture_output=True, text=True).stdout
        assert "filled at" in shown and "what to do" in shown and "Not a leak: globaldict.records" in shown, shown
        why = [BINARY, "memory", str(running["globaldict"].pid), "--why", "1"]
        assert "entries of globaldict.seen: grows steadily" in subprocess.run(why, capture_output=True, text=True).stdout
        status = subprocess.run([BINARY, "status", str(running["cached"].pid)], capture_output=True, text=True).stdout
        assert status.startswith("Leak, "), status[:200]
    finally:
        for process in running.values():
            process.kill()
            process.wait()

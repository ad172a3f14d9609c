"""Injected stalls are found, labelled with their cause and named by their code site."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from observed import HOME, Running, binary, environment, neurogc

PROGRAM = Path(__file__).resolve().parent / "stalling.py"
INJECTED = 30

pytestmark = [pytest.mark.needs_agent, pytest.mark.timing]


def stall(cause, count, *, wrapper=()):
    """Runs the stalling program and gives its stalls."""
    env = environment()
    env["PYTHONPATH"] = str(HOME.parent)
    words = [*wrapper, sys.executable, str(PROGRAM), cause, str(count)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def too_busy():
    pytest.skip("this machine is too busy: most stalls were disturbed")


def named(cause, count):
    """By kind of stall, where those with this label were; a kind that was always disturbed may have none."""
    injected = stall(cause, count)
    found = {each["kind"]: [] for each in injected}
    for each in injected:
        found[each["kind"]] += [site for seen, site in zip(each["seen"], each["sites"]) if seen == cause]
    for kind, sites in found.items():
        if not sites and all(each["disturbed"] for each in injected if each["kind"] == kind):
            too_busy()
    return found


@pytest.mark.parametrize("cause", ["python", pytest.param("gil_native", marks=pytest.mark.twice), "gc"])
def test_the_cause_is_told(cause):
    undisturbed = [each for each in stall(cause, INJECTED) if not each["disturbed"]]
    if len(undisturbed) < INJECTED:
        too_busy()
    wrong = [each for each in undisturbed if set(each["seen"]) != {cause}]
    assert len(wrong) <= 0.05 * INJECTED, wrong


@pytest.mark.twice
def test_a_processor_that_is_missing_is_told():
    # Four busy processes share one processor with the program.
    processor = min(os.sched_getaffinity(0))
    code = f"import os, sys; os.sched_setaffinity(0, {{{processor}}}); os.execv(sys.argv[1], sys.argv[1:])"
    pin = [sys.executable, "-c", code]
    busy = [subprocess.Popen([*pin, "/bin/sh", "-c", "while :; do :; done"]) for _ in range(4)]
    try:
        injected = stall("cpu_starved", INJECTED, wrapper=pin)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    # The scheduler decides how long each wait lasts, and may give a processor back and take it again: some injected
    # stalls are too short to be seen, and some are seen in pieces. One that had a processor for nearly half of its time is
    # as much a stall of another kind.
    # Who looks on has no processor either: a piece that it could not look at has no label, which is no wrong one.
    seen = [each for each in injected if set(each["seen"]) - {"unknown"} and each["waited"] > 0.6]
    wrong = [each for each in seen if 2 * each["seen"].count("cpu_starved") <= len(each["seen"]) - each["seen"].count("unknown")]
    assert len(seen) >= INJECTED / 3, injected
    assert len(wrong) <= max(1, 0.05 * len(seen)), wrong


def test_python_is_named_by_file_and_line():
    for kind, sites in named("python", 8).items():
        assert any("stalling.py:" in site and kind in site for site in sites), (kind, sites)


def test_native_code_is_named_by_its_function_and_library():
    found = named("gil_native", 9)
    assert any("native_sleep" in site for site in found["native_sleep"]), found
    # The sort, or the sleep after it.
    assert any("native_sort" in site for site in found["native_sort"]), found
    assert any("re.Pattern" in site for site in found["native_match"]), found


# Stalls below C code that calls Python code, and below more callers than are kept.
NESTED = """
import json, time, neurogc

def slow():
    end = time.perf_counter() + 0.12
    while time.perf_counter() < end:
        pass

def called_by_c(_):
    slow()

def handler():
    list(map(called_by_c, [None]))

def deep(levels):
    deep(levels - 1) if levels else slow()

neurogc.install(policy="observe")
for _ in range(3):
    handler()
    time.sleep(0.02)
    deep(20)
    time.sleep(0.02)
time.sleep(0.1)
print(json.dumps(neurogc.status()["stalls"]["stacks"]))
"""


def test_a_stall_has_the_callers_that_led_to_it():
    env = environment()
    env["PYTHONPATH"] = str(HOME.parent)
    done = subprocess.run([sys.executable, "-c", NESTED], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    stacks = [[frame.rpartition(" in ")[2] for frame in stack["frames"]] for stack in json.loads(done.stdout)]
    assert ["slow", "called_by_c", "handler", "<module>"] in stacks, stacks
    assert ["slow", *["deep"] * 7] in stacks, stacks


@pytest.mark.once
@pytest.mark.skipif(not binary(), reason="the command has not been built")
def test_the_stacks_are_drawn_as_a_flame_graph(tmp_path):
    code = NESTED.replace('neurogc.install(policy="observe")', "") + "sys.stdout.flush()\nsys.stdin.readline()\n"
    page = tmp_path / "stalls.html"
    with Running("import sys\n" + code, policy="observe") as program:
        program.line()
        neurogc("stalls", program.pid, "-o", page)
        assert "exists already" in neurogc("stalls", program.pid, "-o", page, expect=1)
    drawn = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])
    # Where native code ran, its name is in brackets behind that of the function.
    functions = {frame["function"].partition(" ")[0] for frame in drawn["frames"]}
    assert drawn["measure"] == "stalls" and {"slow", "called_by_c", "handler", "deep"} <= functions, functions
    # Six stalls of which each is the time of its callers.
    assert drawn["nodes"][0]["blocks"] >= 5 and drawn["nodes"][0]["value"] > 50, drawn["nodes"][0]


# Uses a few percent of a processor, in short pieces, and stalls from time to time.
LIGHT = """
import json, time, neurogc

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

neurogc.install(policy="observe")
for _ in range(400):
    work(0.001)
    time.sleep(0.005)
before = neurogc.status()["stalls"]["count"]
for _ in range(20):
    for _ in range(10):
        work(0.0005)
        time.sleep(0.01)
    work(0.03)
    time.sleep(0.02)
status = neurogc.status()
print(json.dumps([before, status["stalls"]["count"] - before, status["agent"]["cpu_ms"]]))
"""


@pytest.mark.once
def test_stalls_of_a_program_with_little_to_do_are_seen_and_seeing_is_cheap():
    env = environment()
    env["PYTHONPATH"] = str(HOME.parent)
    done = subprocess.run([sys.executable, "-c", LIGHT], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    false, seen, cost_ms = json.loads(done.stdout)
    # Each look comes after eight milliseconds of work, which are those of many short pieces.
    assert false <= 2, false
    assert 19 <= seen <= 24, f"{seen} of 20"
    # It ran for six seconds and measures 40 to 60. Looks every two milliseconds would take four times as long.
    assert cost_ms < 100, cost_ms

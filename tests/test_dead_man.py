"""The dead-man's switch: threads of the agent are killed for real, and CPython goes on collecting."""

import json
import subprocess
import sys

import pytest
from killing import NotPermitted, kill_thread, thread_named
from observed import eventually, start

pytestmark = pytest.mark.needs_agent

# A program that does what a line on its stdin says, and answers with a line.
PROGRAM = """
import gc, json, os, sys, time, neurogc
agent = neurogc._native.agent
class Node:
    alive = 0
    def __init__(self):
        Node.alive += 1
        self.me = self
    def __del__(self):
        Node.alive -= 1
def garbage(count):
    most = 0
    for _ in range(count):
        Node()
        most = max(most, Node.alive)
    return most
def real_thresholds():
    return agent.originals["get_threshold"]()
def collections():
    return [each["collections"] for each in gc.get_stats()]
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if garbage(20_000) < 20_000 else 1)
    return os.waitpid(child, 0)[1]
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


class Program:
    """The running program."""

    def __init__(self):
        options = ("-W", "ignore::DeprecationWarning")
        self.process = start(
            sys.executable, *options, "-c", PROGRAM, stdin=subprocess.PIPE, NEUROGC_POLICY="gap"
        )
        assert self.ask("neurogc.status()['conduct']['acting']")
        # Before any order is carried out, so that every thread has begun.
        for name in ("neurogc", "neurogc-uplink"):
            eventually(lambda name=name: thread_named(self.process.pid, name), what=name)

    def ask(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self, name):
        try:
            kill_thread(self.process.pid, name)
        except NotPermitted as reason:
            pytest.skip(str(reason))

    def ends_well(self):
        _, err = self.process.communicate(timeout=30)
        assert (self.process.returncode, err) == (0, "")


@pytest.fixture
def program():
    running = Program()
    yield running
    running.process.kill()
    running.process.communicate()


def test_when_the_sampler_dies_cpython_collects_by_the_programs_thresholds(program):
    theirs = program.ask("gc.get_threshold()")
    # The policy has its own thresholds from the first collection on that it sees.
    eventually(lambda: program.ask("garbage(5_000) and real_thresholds()") != theirs, what="thresholds of the policy")
    program.kill("neurogc")
    said = "the sampler thread has ended"
    eventually(lambda: said in " ".join(program.ask("neurogc.status()['degraded']")), what="a word about it")
    assert program.ask("neurogc.status()['conduct']['acting']") is False
    assert program.ask("real_thresholds()") == program.ask("gc.get_threshold()") == theirs
    before = program.ask("collections()")
    # Young ones, middle ones and full ones, and never much more garbage than the thresholds allow.
    assert program.ask("garbage(200_000)") < 20 * theirs[0]
    program.ask("globals().update(kept=[[Node()] for _ in range(300_000)]) or garbage(200_000)")
    after = program.ask("collections()")
    assert all(after[at] > before[at] for at in range(3)), (before, after)
    assert program.ask("globals().update(kept=None) or gc.collect()") >= 300_000
    assert program.ask("fork()") == 0
    program.ends_well()


def test_when_no_thread_is_left_to_notice_the_program_is_still_collected(program):
    eventually(lambda: program.ask("garbage(5_000) and neurogc.status()['bound']['objects']"), what="the pacer at work")
    # Not in another order: the uplink would see that the other one is gone.
    for name in ("neurogc-uplink", "neurogc"):
        program.kill(name)
    before = program.ask("collections()")
    most = 40 * program.ask("gc.get_threshold()")[0]
    assert program.ask("garbage(1_200_000)") < most
    after = program.ask("collections()")
    assert after[0] > before[0] and after[1] > before[1], (before, after)
    # What has become old and dies there is found, by the pacer in the program's own thread or by CPython.
    program.ask("globals().update(kept=[[Node()] for _ in range(300_000)])")
    program.ask("gc.collect(0), gc.collect(1)")
    program.ask("globals().update(kept=None)")
    program.ask("globals().update(kept=[])")
    grow = "kept.extend([] for _ in range(20_000)) or garbage(1_000) and Node.alive"
    eventually(lambda: program.ask(grow) < 150_000, what="a collection of the old heap")
    program.ask("gc.collect()")
    assert program.ask("fork()") == 0
    program.ends_well()


def test_a_killed_thread_does_not_come_back_as_a_second_pair(program):
    program.kill("neurogc-uplink")
    for _ in range(3):
        assert program.ask("fork()") == 0
    names = program.ask(
        "[open(f'/proc/self/task/{task}/comm').read().strip() for task in os.listdir('/proc/self/task')]"
    )
    assert len(names) == len(set(names)), names
    program.ends_well()

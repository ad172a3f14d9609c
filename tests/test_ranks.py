"""Ranks of a training job collect at the same steps. PyTorch is a made-up one here; `tests/training` has a real one."""

import json
import sys

import pytest
from observed import APPS, binary, start

TORCH = APPS / "fake_torch"

# Each rank has a heap, garbage and speed of its own, and notes at which step each collection begins.
RANK = """
import gc, json, os, random, sys, time, neurogc
from torch import distributed, nn
from torch.optim.optimizer import Optimizer
rank = int(os.environ["RANK"])
chance = random.Random(rank)
class Node:
    def __init__(self):
        self.me = self
kept = [[] for _ in range(30_000 * (1 + rank))]
optimizer = Optimizer([nn.Parameter(512)], 512)
steps, seen = 0, []
def look(phase, info):
    if phase == "start" and steps:
        caller = sys._getframe().f_back
        ours = caller is not None and caller.f_code.co_filename.endswith("neurogc/adapters/torch.py")
        seen.append((steps, ours, info["generation"]))
gc.callbacks.insert(0, look)
def step():
    global steps
    steps += 1
    for _ in range(chance.randrange(400)):
        Node()
    time.sleep(chance.random() * 0.002)
    optimizer.step()
def tell(**more):
    status = neurogc.status()
    print(json.dumps({"seen": seen, "training": status["conduct"]["training"], "orders": status["conduct"]["orders"],
                      "degraded": status["degraded"], **more}))
"""

DDP = "distributed.init_process_group('gloo')\n"


def job(code, ranks=3, **env):
    """Runs the ranks of a job side by side, and gives what each told."""
    env = {"PYTHONPATH": TORCH, "WORLD_SIZE": ranks, "NEUROGC_POLICY": "gap", **env}
    running = [start(sys.executable, "-c", RANK + code, RANK=rank, **env) for rank in range(ranks)]
    told = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, ""), err
        told.append(json.loads(out.splitlines()[-1]))
    return told


@pytest.mark.needs_agent
def test_ranks_collect_at_the_same_steps_whatever_their_heaps_and_speeds_are():
    told = job(DDP + "for _ in range(300): step()\ntell()")
    # Everything is collected at step 100, perhaps from a snapshot, which is no collection of CPython's. What it found is freed at
    # steps 200 and 210, or at 300 where the walk took longer. Before step 100 a rank may instead free what a snapshot found that it
    # took before it knew of the others.
    from_snapshots = {*range(10, 101, 10), 200, 210, 300}
    planned = {step for step in range(10, 301, 10)}
    for rank in told:
        # Before its first step ends, a rank is a process of its own.
        ours = {step for step, ours, _ in rank["seen"] if ours and step > 1}
        assert ours <= planned and ours - from_snapshots == planned - from_snapshots
        assert [each for each in rank["seen"] if not each[1] and each[0] > 1] == []
        training = rank["training"]
        assert (training["ranks"], training["step"], training["next_step"]) == (3, 300, 310)
        assert training["unaligned"] == 0 and training["aligned"] >= 30 and rank["degraded"] == []
        assert any("start-up is over" in order["reason"] for order in rank["orders"]), rank["orders"]
    generations = [[each for each in rank["seen"] if each[1] and each[0] not in from_snapshots] for rank in told]
    assert generations[0] == generations[1] == generations[2]


@pytest.mark.needs_agent
def test_the_setting_says_how_many_steps_ranks_share():
    for rank in job(DDP + "for _ in range(60): step()\ntell()", ranks=2, NEUROGC_ALIGN_STEPS=25):
        assert {step for step, ours, _ in rank["seen"] if ours and step > 1} <= {25, 50}
        assert rank["training"]["next_step"] == 75


@pytest.mark.needs_agent
@pytest.mark.parametrize(("code", "env"), [
    ("", {}),
    (DDP, {"NEUROGC_ALIGN_STEPS": 0}),
    (DDP, {"NEUROGC_POLICY": "observe"}),
    (DDP, {"WORLD_SIZE": 1}),
])
def test_a_process_on_its_own_is_not_bound_to_steps(code, env):
    (rank,) = job(code + "for _ in range(60): step()\ntell()", ranks=1, **{"WORLD_SIZE": 2, **env})
    assert rank["training"]["ranks"] == 0 and rank["training"]["aligned"] == 0, rank["training"]


@pytest.mark.needs_agent
def test_cpythons_own_trigger_stays_armed_between_shared_steps():
    code = DDP + """
for _ in range(12): step()
flood = [Node() for _ in range(400_000)]
del flood
for _ in range(400_000): Node()
tell(real=gc.get_threshold())
"""
    (rank,) = job(code, ranks=1, WORLD_SIZE=2)
    assert rank["training"]["unaligned"] > 0, rank["training"]


@pytest.mark.needs_agent
def test_ranks_that_part_collect_on_their_own_again():
    code = DDP + """
for _ in range(20): step()
before = neurogc.status()["conduct"]["training"]["ranks"]
distributed.destroy_process_group()
tell(before=before)
"""
    (rank,) = job(code, ranks=1, WORLD_SIZE=2)
    assert (rank["before"], rank["training"]["ranks"]) == (2, 0)


@pytest.mark.needs_agent
def test_only_the_steps_of_one_optimizer_are_counted():
    code = DDP + """
other = Optimizer([nn.Parameter(512)], 512)
for _ in range(20):
    step()
    other.step()
middle = neurogc.status()["conduct"]["training"]["step"]
for _ in range(100): other.step()
tell(middle=middle)
"""
    (rank,) = job(code, ranks=1, WORLD_SIZE=2)
    # The other one is counted once it has stepped 65 times without the first; once it did so in the first loop.
    assert (rank["middle"], rank["training"]["step"]) == (20, 20 + 100 - 63)


@pytest.mark.needs_agent
@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_status_says_with_how_many_ranks_a_process_collects():
    code = RANK + DDP + """
import os, subprocess
for _ in range(20): step()
print(subprocess.run([sys.argv[1], "status", str(os.getpid())], capture_output=True, text=True).stdout)
"""
    done = start(sys.executable, "-c", code, binary(), PYTHONPATH=TORCH, WORLD_SIZE=4, RANK=0, NEUROGC_POLICY="gap")
    out, _ = done.communicate(timeout=60)
    assert "aligned with 4 ranks at step 20, next at step 30" in out, out

"""Training loops with real packages on the CPU: where collections fall, and that ranks collect together."""

import json
import sys
from pathlib import Path

import pytest
from observed import binary, run, start

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")


@pytest.mark.parametrize("program", ["plain_loop", "accelerate_loop", "lightning_fit", "huggingface_trainer"])
def test_collections_fall_between_steps_and_epochs_are_seen(program, tmp_path):
    done = run(sys.executable, HERE / f"{program}.py", timeout=600, cwd=tmp_path, NEUROGC_POLICY="gap",
               HF_HUB_OFFLINE=1, PYTHONPATH=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_of_a_loader_share_what_they_inherit():
    done = run(sys.executable, HERE / "dataloader_workers.py", timeout=600, NEUROGC_POLICY="gap")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_graphs_keep_is_read_from_real_nodes():
    done = run(sys.executable, HERE / "saved_tensors.py", timeout=300, NEUROGC_POLICY="observe")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["plain"] >= 6 and found["freed"] == 0, found
    # What hooks have put in the place of tensors is none, and where nodes cannot tell it without them, nothing is read.
    assert found["hooked"] == 0 and found["after"] == (found["plain"] if found["tells"] else 0), found


def job(ranks, steps, folder):
    """Runs a job with so many ranks, and gives what each told."""
    env = {"WORLD_SIZE": ranks, "RENDEZVOUS": folder / "rendezvous", "NEUROGC_POLICY": "gap"}
    words = [sys.executable, HERE / "gloo_ranks.py", "neurogc", steps, 100_000]
    running = [start(*words, RANK=rank, **env) for rank in range(ranks)]
    told = []
    for process in running:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    return told


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_a_gloo_job_stop_at_the_same_steps(ranks, tmp_path):
    told = job(ranks, 320, tmp_path)
    for rank in told:
        training = rank["conduct"]["training"]
        assert (training["ranks"], training["step"], training["unaligned"]) == (ranks, 320, 0), rank
        # A walk that gets no processor is given up, which `degraded` says: that is not what is tested here.
        assert training["boundaries"] == 1, rank
        # Once its first step has ended, nothing stops a rank between shared steps. An epoch of 250 steps is too short to
        # be used.
        stopped = {step for step, what, *_ in rank["stops"] if what != "epoch"}
        assert stopped - {0} == set(range(10, 321, 10)), rank["stops"]

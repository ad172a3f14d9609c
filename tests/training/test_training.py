"""Training loops with real packages, on a GPU where there is one: where collections fall, and that ranks collect together."""

import json
import socket
import sys
import time
from pathlib import Path

import pytest
from observed import Running, binary, eventually, neurogc, run, socket_path, start

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")


@pytest.mark.parametrize("program", ["plain_loop", "accelerate_loop", "lightning_fit", "huggingface_trainer"])
def test_collections_fall_between_steps_and_epochs_are_seen(program, tmp_path):
    done = run(sys.executable, HERE / f"{program}.py", timeout=600, cwd=tmp_path, NEUROGC_POLICY="gap",
               HF_HUB_OFFLINE=1, PYTHONPATH=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", ["lightning_evaluation", "huggingface_evaluation"])
def test_ends_of_evaluations_cause_collections_of_everything(program, tmp_path):
    done = run(sys.executable, HERE / f"{program}.py", timeout=600, cwd=tmp_path, NEUROGC_POLICY="auto",
               HF_HUB_OFFLINE=1, PYTHONPATH=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_of_a_loader_share_what_they_inherit():
    done = run(sys.executable, HERE / "dataloader_workers.py", timeout=600, NEUROGC_POLICY="gap")
    assert done.returncode == 0, done.stdout + done.stderr


class Loader:
    """`persistent_workers.py`, which goes on by a quarter of an epoch at each line."""

    def __init__(self, running):
        self.running, self.pid = running, running.pid
        self.workers = [int(word) for word in running.line().split()[1:]]
        assert len(self.workers) == 3 and eventually(socket_path(self.pid).exists)

    def goes_on(self):
        self.running.say()
        assert self.running.line() == "done"
        return neurogc("memory", self.pid, "--children", "--json")

    @staticmethod
    def start(what, **env):
        program = HERE / "persistent_workers.py"
        code = f"import runpy, sys; sys.argv[:] = [{str(program)!r}, {what!r}]; runpy.run_path(sys.argv[0], run_name='__main__')"
        return Running(code, within=240, policy="auto", **env)


def test_workers_of_a_real_loader_copy_with_each_batch():
    with Loader.start("copies") as running:
        loader = Loader(running)
        first = loader.goes_on()
        children = {child["pid"]: child["worker"] for child in first["children"]}
        assert [children[pid]["kind"] for pid in loader.workers] == ["dataloader"] * 3, first
        last = [loader.goes_on() for _ in range(3)][-1]
        assert last["batches"] > first["batches"] > 0
        growth = {row["pid"]: row for row in last["growth"]}
        for pid in loader.workers:
            # A third of 600,000 lists, of which a batch reads 10,000.
            assert growth[pid]["copied"] > 1 << 20 and growth[pid]["copied_per_batch"] > 10_000, last["growth"]


def test_a_persistent_worker_that_leaks_is_told_from_the_others():
    with Loader.start("leak") as running:
        loader = Loader(running)

        def found():
            # The series that the verdict is made from has a point for every five seconds, and growth is judged after 80.
            time.sleep(2)
            return [it for it in loader.goes_on()["findings"] if it["kind"] == "children"]

        (finding,) = eventually(found, within=200)
        assert finding["holder"] == f"worker {loader.workers[1]}", finding
        assert "of a DataLoader grows by" in finding["text"] and "2 other workers do not grow" in finding["text"], finding


def test_what_graphs_keep_is_read_from_real_nodes():
    done = run(sys.executable, HERE / "saved_tensors.py", timeout=300, NEUROGC_POLICY="observe")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["plain"] == 5 and found["freed"] == 0, found
    # What hooks have put in the place of tensors is none, and where nodes cannot tell it without them, nothing is read.
    assert found["hooked"] == 0 and found["after"] == (found["plain"] if found["tells"] else 0), found


def test_what_fsdp_has_sharded_is_known_by_its_use(tmp_path):
    done = run(sys.executable, HERE / "sharded_model.py", timeout=300, NEUROGC_POLICY="observe", RENDEZVOUS=tmp_path / "rendezvous")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    held, size = told["held"], told["bytes"]
    assert "DTensor" in told["kinds"]
    assert size <= held["parameters"] < 1.1 * size and size <= held["gradients"] < 1.1 * size, held
    assert 2 * size <= held["optimizer"] < 2.1 * size, held


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


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_ranks_under_torchrun_stop_at_the_same_steps_by_the_default_policy(how, tmp_path):
    words = ["-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    program = [HERE / "gloo_ranks.py", "neurogc", 160, 100_000, *(["fsdp"] if how == "fsdp" else [])]
    done = run(sys.executable, *words, *program, timeout=600, FOLDER=tmp_path, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    for rank in told:
        training = rank["conduct"]["training"]
        assert rank["policy"] == ["auto", "gap"], rank["policy"]
        assert (training["ranks"], training["step"], training["unaligned"]) == (2, 160, 0), rank
        # Until its first step has ended a rank is a process of its own, and FSDP does much in that step.
        stopped = {step for step, what, *_ in rank["stops"] if what != "epoch"}
        assert stopped - {0, 1} == set(range(10, 161, 10)), rank["stops"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]

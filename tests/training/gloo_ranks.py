"""One rank of a job that trains with DDP over gloo on the CPU. It prints at which steps it was stopped, and for how long.

    gloo_ranks.py WAY STEPS HEAP [fsdp]      with RANK, WORLD_SIZE and a file in RENDEZVOUS in the environment, or under torchrun

With `fsdp` the model is sharded. Where FOLDER is in the environment, what a rank tells goes to a file there. WAY is `default` (CPython's own collector), `every` (TorchTitan's way: no automatic collections, gc.collect(1) at every 50th
step) or `neurogc`. Stops are collections, and with neurogc all of what it does at the ends of steps and epochs, too.
"""

import gc
import json
import os
import random
import sys
import time
from pathlib import Path

import torch
from torch import distributed
from torch.distributed import fsdp

EVERY = 50
EPOCH = 250


class Node:
    """Garbage that only the collector can free."""

    def __init__(self):
        self.me = self


class Stops:
    """Notes stops by step: in all, with their wall and processor time."""

    def __init__(self):
        self.step = 0
        self.rows = []
        self._depth = 0
        self._began = (0.0, 0.0)

    def begin(self):
        self._depth += 1
        if self._depth == 1:
            self._began = (time.perf_counter(), time.thread_time())

    def end(self, what):
        self._depth -= 1
        if self._depth == 0 and what is not None:
            wall, worked = time.perf_counter() - self._began[0], time.thread_time() - self._began[1]
            self.rows.append((self.step, what, 1e3 * wall, 1e3 * worked))

    def collection(self, phase, info):
        if phase == "start":
            self.begin()
        else:
            self.end(f"generation {info['generation']}")


class Timed:
    """The agent as its adapter for PyTorch sees it, with the time that it takes at the ends of steps and epochs."""

    def __init__(self, agent, stops):
        self._agent, self._stops = agent, stops

    def __getattr__(self, name):
        return getattr(self._agent, name)

    def rank_step(self, ranks):
        self._stops.begin()
        self._agent.rank_step(ranks)
        self._stops.end("step" if self._stops.step % 10 == 0 else None)

    def boundary(self):
        self._stops.begin()
        self._agent.boundary()
        self._stops.end("epoch")


def main():
    way, steps, heap = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    where = f"file://{os.environ['RENDEZVOUS']}" if "RENDEZVOUS" in os.environ else "env://"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
    if sys.argv[4:] == ["fsdp"]:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (ranks,))
        for part in (model[0], model[2], model):
            fsdp.fully_shard(part, mesh=mesh)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(32 * EPOCH, 64), torch.randint(0, 4, (32 * EPOCH,)))
    # What the program keeps, and what each step leaves behind, differ from rank to rank.
    chance = random.Random(rank)
    kept = [[number] for number in range(heap + heap // 10 * rank)]
    stops = Stops()
    if way == "every":
        gc.disable()
        gc.collect(1)
    elif way == "neurogc":
        from neurogc.adapters import torch as adapter

        adapter.agent = Timed(adapter.agent, stops)
    distributed.barrier()
    gc.callbacks.insert(0, stops.collection)
    began, walls = time.perf_counter(), []
    while stops.step < steps:
        for inputs, targets in torch.utils.data.DataLoader(data, batch_size=32):
            step_began = time.perf_counter()
            for _ in range(chance.randrange(200, 400)):
                Node()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            stops.step += 1
            optimizer.step()
            optimizer.zero_grad()
            if way == "every" and stops.step % EVERY == 0:
                gc.collect(1)
            walls.append(1e3 * (time.perf_counter() - step_began))
            if stops.step >= steps:
                break
    took = time.perf_counter() - began
    gc.callbacks.remove(stops.collection)
    told = {"rank": rank, "steps": stops.step, "stops": stops.rows, "took_s": took, "kept": len(kept),
            "step_p50_ms": sorted(walls)[len(walls) // 2]}
    if way == "neurogc":
        import neurogc

        status = neurogc.status()
        told |= {"conduct": status["conduct"], "degraded": status["degraded"], "policy": [status["policy_set"], status["policy"]]}
    distributed.barrier()
    distributed.destroy_process_group()
    if folder := os.environ.get("FOLDER"):
        Path(folder, f"rank{rank}.json").write_text(json.dumps(told))
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

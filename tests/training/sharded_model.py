"""The parts of a model that FSDP has sharded are known as parameters, gradients and optimizer state. One rank of gloo, on the CPU.

    sharded_model.py      under `neurogc run`, with a file in RENDEZVOUS in the environment; needs torch from 2.6 on
"""

import gc
import json
import os

import torch
from neurogc._gpu import allocator, holders
from torch import distributed
from torch.distributed import fsdp

torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{os.environ['RENDEZVOUS']}", rank=0, world_size=1)
mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 256))
for layer in model:
    fsdp.fully_shard(layer, mesh=mesh)
fsdp.fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(8, 256)).square().mean().backward()
optimizer.step()


def segments(within=None):
    """As if the memory of all tensors that Python code has were blocks of a GPU's allocator."""
    sizes = {}
    with allocator.plainly():
        for one in gc.get_objects():
            if issubclass(type(one), torch.Tensor) and allocator.address(one):
                sizes[allocator.address(one)] = one.untyped_storage().nbytes()
    return [
        {"device": 0, "address": at, "total_size": size, "blocks": [{"address": at, "size": size, "state": "active_allocated"}]}
        for at, size in sizes.items() if size
    ]


allocator.KIND, allocator.segments = "cpu", segments
report = holders.report(60, False)
numbers = sum(parameter.numel() for parameter in model.parameters())
kinds = sorted({type(parameter).__name__ for parameter in model.parameters()})
print(json.dumps({"held": report["devices"][0], "bytes": 4 * numbers, "kinds": kinds}), flush=True)
distributed.destroy_process_group()

"""A training loop under `gap`, for a machine with PyTorch (and CUDA, if it has it): collections fall between steps.

    neurogc run --policy gap -- python tests/gpu/training.py [STEPS]

Prints a report, for a comparison with `--policy cpython`, and fails if the loop was disturbed or if a full collection
that no guard ordered fell into the computing part of a step. Young ones may: the wait for the accelerator is a gap, too.
"""

import gc
import json
import sys
import time

import neurogc
import torch


class Callback:
    """What logging hooks leave behind: objects in cycles."""

    def __init__(self, step, loss):
        self.step, self.loss, self.me = step, loss, self


def main(steps):
    """Trains, and keeps an eye on each collection."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    pinned = torch.randn(64, 256, pin_memory=device == "cuda")
    target = torch.randint(0, 10, (64,), device=device)
    inside, fell_inside = False, []
    gc.callbacks.append(lambda phase, info: fell_inside.append(info["generation"]) if inside and phase == "start" else None)
    heap = [{"record": number} for number in range(200_000)]
    times = []
    for step in range(steps):
        began = time.perf_counter()
        # The first steps load libraries, and wait for that as long as a program waits that has started up.
        inside = step >= 10
        loss = torch.nn.functional.cross_entropy(model(pinned.to(device, non_blocking=True)), target)
        loss.backward()
        for _ in range(200):
            Callback(step, float(step))
        inside = False
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - began)
    assert torch.isfinite(loss), "the training was disturbed"
    times.sort()
    status = neurogc.status()
    seen = {name: status["gc"][name]["count"] for name in ("young", "middle", "full", "in_gap", "in_request", "forced")}
    report = {
        "device": device,
        "torch": torch.__version__,
        "policy": status["policy"],
        "degraded": status["degraded"],
        "fell_inside": len(fell_inside),
        "full_inside": fell_inside.count(2),
        "gc": seen,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "max_ms": 1e3 * times[-1],
        "live": len(heap),
        "orders": status["conduct"]["orders"],
    }
    print(json.dumps(report))
    if status["policy"] == "gap":
        assert report["full_inside"] <= seen["forced"], "full collections inside steps"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)

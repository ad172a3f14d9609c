"""Snapshots beside CUDA: the program's work on the accelerator goes on unharmed, pinned buffers included.

    neurogc run --policy observe -- python tests/gpu/snapshots.py [SECONDS]

Copies between pinned memory and the accelerator and multiplies there, all the time, while a thread collects from
snapshots back to back. Every result is compared with the one that was computed before. Prints a report; fails if a
result differs, a snapshot fails, a process is left behind, or garbage is. Without CUDA it does the same on the processor.
"""

import gc
import json
import os
import sys
import threading
import time

import neurogc
import torch


class Node:
    """Something in a cycle."""

    def __init__(self, other=None):
        self.me, self.other = self, other


def work(device, pinned, weight, expected, stream):
    """One round trip through pinned memory; the result must be what it was the first time."""
    with torch.cuda.stream(stream) if stream else open(os.devnull):
        there = pinned.to(device, non_blocking=True)
        result = there @ weight
        back = torch.empty_like(expected, pin_memory=device == "cuda")
        back.copy_(result, non_blocking=True)
        if stream:
            stream.synchronize()
    return torch.equal(back, expected)


def main(seconds):
    """Works and takes snapshots until the time is over."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(1)
    pinned = torch.randint(-8, 8, (1024, 1024), generator=generator).float()
    if device == "cuda":
        pinned = pinned.pin_memory()
    weight = torch.randint(-8, 8, (1024, 1024), generator=generator).float().to(device)
    expected = (pinned.to(device) @ weight).cpu()
    # What a DataLoader holds: the kernel copies registered memory when a process is cloned, unless it is left out.
    held = [torch.empty(128 << 20, dtype=torch.uint8, pin_memory=device == "cuda") for _ in range(4)]
    for each in held:
        each.fill_(7)
    stream = torch.cuda.Stream() if device == "cuda" else None
    heap = [Node() for _ in range(400_000)]
    end = time.monotonic() + seconds
    found, refused, errors = [], [], []

    def collect():
        while time.monotonic() < end:
            for _ in range(2_000):
                Node(Node())
            answer = neurogc.collect("snapshot")
            found.append(answer)

    collector = threading.Thread(target=collect)
    collector.start()
    rounds, times = 0, []
    while time.monotonic() < end:
        began = time.perf_counter()
        if not work(device, pinned, weight, expected, stream):
            errors.append(rounds)
        times.append(time.perf_counter() - began)
        rounds += 1
    collector.join()
    left = gc.collect()
    times.sort()
    status = neurogc.status()
    snapshot = status["gc"]["snapshot"]
    report = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "python": status["python"],
        "rounds": rounds,
        "wrong": len(errors),
        "held_intact": all(bool((each == 7).all()) for each in held),
        "snapshots": snapshot,
        "figures": {
            name: value for name, value in sys.modules["neurogc._agent"].snapshot_figures().items() if name != "latest"
        },
        "refused": refused,
        "found": sum(found),
        "left": left,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "max_ms": 1e3 * times[-1],
        "degraded": status["degraded"],
        "heap": len(heap),
    }
    print(json.dumps(report, indent=1))
    assert not errors and report["held_intact"], "a result differs"
    assert snapshot["count"] >= 5 and snapshot["failed"] == 0, "snapshots failed"
    assert not [child for child in status["children"] if "python" in child["command"]], "a process was left behind"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)

"""Sizes in heap dumps of objects whose package is too large for the other environments."""

import ngch
from observed import python


def test_tensors_have_the_memory_that_they_share(tmp_path):
    path = tmp_path / "heap.ngch"
    python(f"""
import neurogc, torch
held = [torch.zeros(1000, 250) for _ in range(20)]
parts = [part[:10] for part in held]
nowhere = torch.zeros(1 << 30, device="meta")
neurogc.heap.dump({str(path)!r})
""")
    tensors = [it for it in ngch.read(path).objects if it.type.kind == "tensor"]
    assert 20_000_000 <= sum(it.size for it in tensors) < 21_000_000

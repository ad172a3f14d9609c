"""Snapshot files of the shape that `torch.cuda.memory._dump_snapshot` writes, without a GPU.

    python tests/gpu/snapshot_file.py FILE [--protocol N] [--steps N] [--no-history]

A made-up caching allocator (small and large segments, best fit, blocks that are split and merged, two devices, a second stream)
plays training steps that keep one output each, until a batch does not fit. Keys, states and actions are those of PyTorch 2.1 to
2.11. Texts and frames are shared between entries, as in PyTorch's own files. On a machine with a GPU, `check.py` has a real file.
"""

import argparse
import pickle
import random

KIB, MIB = 1 << 10, 1 << 20

TRAIN, LINEAR = "/srv/shop/train.py", "/srv/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py"


def frames(*rows):
    """A call stack, the innermost frame first."""
    return [{"name": name, "filename": file, "line": line} for file, line, name in rows]


NATIVE = [{"name": "c10::cuda::CUDACachingAllocator::Native::malloc(unsigned long)", "filename": "??", "line": 0}]
MAIN = frames((TRAIN, 80, "main"), (TRAIN, 91, "<module>"))
STACKS = {
    "weights": NATIVE + frames((LINEAR, 109, "__init__"), (TRAIN, 12, "build")) + MAIN,
    "optimizer": NATIVE + frames((TRAIN, 30, "make_optimizer")) + MAIN,
    "activation": NATIVE + frames((LINEAR, 134, "forward"), (TRAIN, 41, "forward"), (TRAIN, 60, "step")) + MAIN,
    "kept": NATIVE + frames((TRAIN, 63, "step")) + MAIN,
    "batch": NATIVE + frames(("/srv/shop/data.py", 7, "load"), (TRAIN, 58, "step")) + MAIN,
}
NO_FRAMES = []


class Device:
    """One device with its allocator."""

    def __init__(self, number, total):
        self.number, self.total = number, total
        self.segments, self.trace = [], []
        self.next = 0x7F0000000000 + (number << 40)
        self.clock = 1_700_000_000_000_000

    def _note(self, action, address, size, stream, stack):
        self.clock += 137
        place = "device_free" if action == "oom" else "addr"
        self.trace.append(
            {"action": action, place: address, "size": size, "stream": stream, "time_us": self.clock, "compile_context": "N/A", "frames": stack}
        )

    def reserved(self):
        return sum(segment["total_size"] for segment in self.segments)

    def take(self, asked, kind, stream=0):
        """A block; None where the device has no room for it, which is noted."""
        stack = STACKS[kind]
        size = -(-asked // 512) * 512
        small = size <= MIB
        fits = [
            (block["size"], block["address"], segment, block)
            for segment in self.segments
            if segment["stream"] == stream and (segment["segment_type"] == "small") == small
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= size
        ]
        if fits:
            _, _, segment, block = min(fits, key=lambda fit: fit[:2])
        else:
            length = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            if self.reserved() + length > self.total:
                self._note("oom", self.total - self.reserved(), size, stream, stack)
                return None
            segment, block = self._segment(length, stream, small, stack)
        rest = block["size"] - size
        if rest >= (512 if small else MIB):
            after = _free_block(block["address"] + size, rest)
            segment["blocks"].insert(segment["blocks"].index(block) + 1, after)
            block["size"] = size
        block.update(requested_size=asked, state="active_allocated", frames=stack)
        self._note("alloc", block["address"], asked, stream, stack)
        return segment, block

    def _segment(self, length, stream, small, stack):
        block = _free_block(self.next, length)
        segment = {
            "device": self.number, "address": self.next, "total_size": length, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": stream, "segment_type": "small" if small else "large", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": stack, "blocks": [block],
        }
        self.next += length
        self.segments.append(segment)
        self._note("segment_alloc", segment["address"], length, stream, stack)
        return segment, block

    def free(self, taken, pending=False):
        """Frees a block; one that another stream still uses stays active."""
        segment, block = taken
        stream, size = segment["stream"], block["requested_size"]
        self._note("free_requested", block["address"], size, stream, NO_FRAMES)
        if pending:
            block["state"] = "active_pending_free"
            return
        self._note("free_completed", block["address"], size, stream, NO_FRAMES)
        block.update(state="inactive", requested_size=0, frames=NO_FRAMES)
        merged = []
        for each in segment["blocks"]:
            if merged and merged[-1]["state"] == each["state"] == "inactive":
                merged[-1]["size"] += each["size"]
            else:
                merged.append(each)
        segment["blocks"] = merged

    def sums(self):
        """Fills in the sums of segments."""
        for segment in self.segments:
            used = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
            active = [block for block in segment["blocks"] if block["state"] != "inactive"]
            segment["allocated_size"] = sum(block["size"] for block in used)
            segment["active_size"] = sum(block["size"] for block in active)
            segment["requested_size"] = sum(block["requested_size"] for block in active)


def _free_block(address, size):
    return {"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": NO_FRAMES}


def made(steps=40, history=True, seed=1):
    """The snapshot of a training loop that keeps an output of each step, and at last asks for too much."""
    chance = random.Random(seed)
    first, second = Device(0, 400 * MIB), Device(1, 100 * MIB)
    for _ in range(6):
        first.take(8 * MIB - 100, "weights")
    for _ in range(12):
        first.take(700 * KIB, "optimizer")
    second.free(second.take(30 * MIB, "batch"))
    # What came before the recording began.
    first.trace.clear()
    second.trace.clear()
    for number in range(steps):
        batch = first.take(chance.randrange(2, 9) * MIB, "batch", stream=0x55D0C0DE if number % 2 else 0)
        passed = [first.take(chance.randrange(1, 40) * 100 * KIB, "activation") for _ in range(5)]
        first.take(chance.randrange(200, 1500) * KIB, "kept")
        for taken in filter(None, passed):
            first.free(taken)
        if batch:
            first.free(batch, pending=number == steps - 1 and number % 2 == 1)
    first.take(600 * MIB, "batch")
    traces = []
    for device in (first, second):
        device.sums()
        traces.append(device.trace if history else [])
    segments = first.segments + second.segments
    if not history:
        for segment in segments:
            segment["frames"] = NO_FRAMES
            for block in segment["blocks"]:
                block["frames"] = NO_FRAMES
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False,
        "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False, "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {"1": 0, "2": 0},
    }
    return {"segments": segments, "device_traces": traces, "allocator_settings": settings, "external_annotations": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--protocol", type=int, default=pickle.DEFAULT_PROTOCOL)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--no-history", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.file, "wb") as file:
        pickle.dump(made(arguments.steps, not arguments.no_history), file, protocol=arguments.protocol)


if __name__ == "__main__":
    main()

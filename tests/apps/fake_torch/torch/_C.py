"""The made-up allocator, and the functions of C++ that tell about it."""

SEGMENT = 2 << 20


class Card:
    """A card and PyTorch's allocator on it."""

    def __init__(self, total):
        self.total = total
        self.segments, self.blocks = [], {}
        self.peak = self.retries = self.ooms = self.asked = self.snapshots = 0
        self.history = False
        self.slowly = lambda pool: None
        self.next = 0x7F0000000000
        self.observers = []

    def reserved(self):
        return sum(segment["total_size"] for segment in self.segments)

    def allocated(self):
        return sum(block["size"] for segment, block in self.blocks.values())

    def take(self, size):
        """A block of so many bytes, rounded up as PyTorch does."""
        size = -(-size // 512) * 512
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["state"] == "inactive" and block["size"] >= size:
                    return self._cut(segment, block, size)
        length = SEGMENT if size < SEGMENT else size
        if self.reserved() + length > self.total:
            self.retries += 1
            self.segments = [it for it in self.segments if any(block["state"] != "inactive" for block in it["blocks"])]
        if self.reserved() + length > self.total:
            self.ooms += 1
            for observer in self.observers:
                observer(0, size, self.total, self.total - self.reserved())
            import torch

            raise torch.OutOfMemoryError("CUDA out of memory")
        whole = {"address": self.next, "size": length, "state": "inactive"}
        segment = {"device": 0, "address": self.next, "total_size": length, "blocks": [whole]}
        self.next += length
        self.segments.append(segment)
        return self._cut(segment, whole, size)

    def _cut(self, segment, block, size):
        rest = block["size"] - size
        if rest:
            after = {"address": block["address"] + size, "size": rest, "state": "inactive"}
            segment["blocks"].insert(segment["blocks"].index(block) + 1, after)
        block.update(size=size, state="active_allocated")
        self.blocks[block["address"]] = (segment, block)
        self.peak = max(self.peak, self.allocated())
        return block["address"]

    def free(self, address):
        segment, block = self.blocks.pop(address)
        block["state"] = "inactive"
        merged = []
        for each in segment["blocks"]:
            if merged and merged[-1]["state"] == each["state"] == "inactive":
                merged[-1]["size"] += each["size"]
            else:
                merged.append(each)
        segment["blocks"] = merged

    def inactive(self):
        parts = [it for it in self.segments if any(block["state"] != "inactive" for block in it["blocks"])]
        return sum(block["size"] for it in parts for block in it["blocks"] if block["state"] == "inactive")


card = Card(1 << 30)


def _cuda_getDeviceCount():
    return 1


def _cuda_memoryStats(device):
    card.asked += 1

    def of(value, peak=None):
        return {"all": {"current": value, "peak": peak or value}}

    allocated = card.allocated()
    return {
        "allocated_bytes": of(allocated, card.peak),
        "reserved_bytes": of(card.reserved()),
        "active_bytes": of(allocated),
        "inactive_split_bytes": of(card.inactive()),
        "allocation": of(len(card.blocks)),
        "num_alloc_retries": card.retries,
        "num_ooms": card.ooms,
    }


def _cuda_hostMemoryStats():
    return {"active_bytes": {"current": 12345}}


def _cuda_isCurrentStreamCapturing():
    return False


def _cuda_isHistoryEnabled():
    return card.history


def _cuda_getMemoryFraction(device):
    return 1.0


def _cuda_memorySnapshot(pool):
    card.snapshots += 1
    # What a program may put here takes time.
    card.slowly(pool)
    return {"segments": card.segments}


def _cuda_attach_out_of_memory_observer(observer):
    card.observers.append(observer)


class DisableTorchFunction:
    """A context that changes nothing here."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

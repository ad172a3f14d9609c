"""The allocator's blocks, by address, and what each is used for."""

from bisect import bisect_right

PARAMETERS, GRADIENTS, OPTIMIZER, BUFFERS, ACTIVATIONS, OTHER, WORKSPACES = (
    "parameters", "gradients", "optimizer", "buffers", "activations", "other", "workspaces",
)


class Blocks:
    """All blocks in use. A block is claimed once: for the first thing that it is found to be used for."""

    def __init__(self, segments, deadline=None):
        self._starts, self._blocks = [], []
        self.segments = segments
        self.claimed = {}
        found = []
        for segment in deadline.rows(segments) if deadline is not None else segments:
            at = segment["address"]
            for block in segment["blocks"]:
                # Older versions do not give the address of a block.
                at = block.get("address", at)
                if block["state"] == "active_allocated":
                    found.append((at, block["size"], segment["device"]))
                at += block["size"]
        found.sort()
        self._blocks = found
        self._starts = [start for start, _, _ in found]

    def at(self, address):
        """The number of the block that an address is in, or None."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or not address:
            return None
        start, size, _ = self._blocks[number]
        return number if address < start + size else None

    def claim(self, address, use):
        """Takes the block at an address for a use; its size, or 0 where there is none or it was claimed."""
        number = self.at(address)
        if number is None or number in self.claimed:
            return 0
        self.claimed[number] = use
        return self._blocks[number][1]

    def claim_workspaces(self, sizes):
        """Takes blocks that nothing has claimed and that are of one of these sizes for workspaces of cuBLAS."""
        for number, (_, size, _) in enumerate(self._blocks):
            if number not in self.claimed and size in sizes:
                self.claimed[number] = WORKSPACES

    def devices(self):
        """For each device that has segments: its figures by name."""
        found = {}
        for segment in self.segments:
            device = found.setdefault(segment["device"], _empty())
            device["reserved_bytes"] += segment["total_size"]
            free = sum(block["size"] for block in segment["blocks"] if block["state"] == "inactive")
            # Of a segment that can grow and shrink, whole pages go back by themselves; pieces stay.
            device["cached" if free == segment["total_size"] else "fragmented"] += free
        for number, (_, size, device) in enumerate(self._blocks):
            of_device = found[device]
            of_device["allocated_bytes"] += size
            of_device[self.claimed.get(number, "unseen")] += size
        return found

    def at_least(self, least):
        """Blocks of at least a size, the largest first: (bytes, address)."""
        return sorted(((size, start) for start, size, _ in self._blocks if size >= least), reverse=True)

    def since(self, sizes, least, device):
        """Blocks of a device that are not among these sizes by address, the largest first: (bytes, number)."""
        rows = (
            (size, number)
            for number, (start, size, of) in enumerate(self._blocks)
            if of == device and size >= least and sizes.get(start) != size
        )
        return sorted(rows, reverse=True)

    def largest(self, most):
        """The largest blocks: (bytes, device, use)."""
        use = self.claimed.get
        rows = [(size, device, use(number, "unseen")) for number, (_, size, device) in enumerate(self._blocks)]
        return sorted(rows, reverse=True)[:most]


def _empty():
    names = ("reserved_bytes", "allocated_bytes", "cached", "fragmented", "unseen")
    return dict.fromkeys((*names, PARAMETERS, GRADIENTS, OPTIMIZER, BUFFERS, ACTIVATIONS, OTHER, WORKSPACES), 0)

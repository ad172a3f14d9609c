"""Workers of a DataLoader share what they inherit: run it under `neurogc run --policy gap`. Needs torch."""

import gc
import json
import sys

import torch
from steps import Node

HEAP = 100_000


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.nodes = [Node() for _ in range(HEAP)]

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return gc.get_freeze_count()


before = gc.get_freeze_count()
loader = torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2, multiprocessing_context="fork")
frozen = [int(count) for batch in loader for count in batch]
print(json.dumps({"frozen": min(frozen), "in the parent": gc.get_freeze_count()}))
assert min(frozen) > HEAP and gc.get_freeze_count() == before
sys.exit(0)

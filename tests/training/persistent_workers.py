"""A DataLoader whose workers live on from epoch to epoch; each line on stdin is an epoch. Needs torch.

    persistent_workers.py copies|leak      under `neurogc run`

Workers read what they have inherited, a part of it with each batch; or the second one of three keeps what it reads.
"""

import sys

import torch

WHAT = sys.argv[1]
ENTRIES, BATCHES = 600_000, 60
VOCABULARY = {number: [number] for number in range(ENTRIES)}
kept = []


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        if WHAT == "leak":
            if torch.utils.data.get_worker_info().id == 1:
                kept.append(bytearray(150_000))
        elif index >= 0:
            part = ENTRIES // BATCHES
            for number in range(index * part, (index + 1) * part):
                VOCABULARY[number][0]
        return index


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=3, persistent_workers=True, multiprocessing_context="fork")
    batches = iter(loader)
    next(batches)
    print("workers", *[process.pid for process in batches._workers], flush=True)
    for _ in sys.stdin:
        for _ in range(BATCHES // 4):
            if next(batches, None) is None:
                batches = iter(loader)
        print("done", flush=True)

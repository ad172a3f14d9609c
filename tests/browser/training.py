"""A training loop on the made-up card of tests/apps/fake_torch, which keeps an output of each step."""

import time

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

model = nn.Module(*(nn.Parameter(1 << 20) for _ in range(3)))
optimizer = Optimizer(model._parameters.values(), 1 << 20)
torch.cuda.init()
history = []

while True:
    history.append(torch.Tensor(64 << 10))
    optimizer.step()
    time.sleep(0.02)
    # Before the card is full.
    if len(history) > 8000:
        history.clear()

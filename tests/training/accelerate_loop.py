"""A loop with Accelerate needs no code: run it under `neurogc run --policy gap`. Needs torch and accelerate."""

import sys

import accelerate
import torch
from steps import Steps

STEPS = 400

torch.set_num_threads(1)
accelerator = accelerate.Accelerator(cpu=not torch.cuda.is_available())
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(16 * STEPS, 64), torch.randint(0, 4, (16 * STEPS,)))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=32))
steps = Steps()
for _ in range(2):
    for inputs, targets in loader:
        steps.work()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
sys.exit(steps.report(STEPS, boundaries=2))

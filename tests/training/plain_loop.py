"""A training loop of plain PyTorch needs no code: run it under `neurogc run --policy gap`. Needs torch."""

import sys

import torch
from steps import Steps

STEPS = 400

torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(16 * STEPS, 64), torch.randint(0, 4, (16 * STEPS,)))
steps = Steps()
for _ in range(2):
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=32):
        steps.work()
        torch.nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
sys.exit(steps.report(STEPS, boundaries=2))

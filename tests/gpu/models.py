"""Models whose memory must be attributed: a transformer, a CNN with hooks, an LSTM that keeps its history."""

import torch
from torch import nn


def transformer(device):
    """A forward pass is over, gradients of the step before are there."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch):
        output = model(batch)
        return output, output.square().mean()

    return _trained(optimizer, step, lambda: torch.randn(16, 256, 512, device=device))


def convolutions(device):
    """Hooks keep the output of every convolution."""
    layers = []
    for width_in, width in ((3, 64), (64, 128), (128, 128), (128, 256)):
        layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).to(device)
    features = {}
    for number, layer in enumerate(model):
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda module, inputs, output, number=number: features.update({number: output.detach()}))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(batch):
        output = model(batch)
        return features, output.square().mean()

    return _trained(optimizer, step, lambda: torch.randn(64, 3, 64, 64, device=device))


def recurrent(device):
    """The states of the latest 20 steps are kept, two of them with their graphs."""
    model = nn.LSTM(256, 512, num_layers=2, batch_first=True).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    history = []

    def step(batch):
        output, state = model(batch)
        history.append(tuple(one.detach() for one in state))
        del history[:-20]
        return (output, state, history), output.square().mean()

    return _trained(optimizer, step, lambda: torch.randn(32, 128, 256, device=device), 25)


def _trained(optimizer, step, batch, steps=4):
    for _ in range(steps):
        _, loss = step(batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    # In the middle of the next step: gradients of a first part, and the graph of a second one.
    step(batch())[1].backward()
    return step(batch()), optimizer


MODELS = {"transformer": transformer, "convolutions": convolutions, "recurrent": recurrent}

"""Training loops that leak memory of the GPU, each with its right verdict, and loops that only look like it."""

import copy
import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Dataset

WIDTH, BATCH = 512, 64


class Net(nn.Module):
    """A small network."""

    def __init__(self):
        super().__init__()
        width = WIDTH
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, 16)

    def forward(self, x):
        return self.head(self.layers(x))


class Loop:
    """What the loops have in common: a model, an optimizer, and one step."""

    def __init__(self, device):
        self.device = device
        self.model = Net().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def batch(self, size=None):
        return torch.randn(size or BATCH, WIDTH, device=self.device)

    def loss(self, x):
        return self.model(x).square().mean()

    def step(self, loss, **how):
        loss.backward(**how)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def loss_with_graph(device, steps):
    loop, losses = Loop(device), []
    for _ in range(steps):
        loss = loop.loss(loop.batch())
        losses.append(loop.loss(loop.batch()))
        loop.step(loss)


def logged_tensors(device, steps):
    loop, history = Loop(device), {"outputs": []}
    for _ in range(steps):
        x = loop.batch()
        history["outputs"].append(loop.model(x).detach())
        loop.step(loop.loss(x))


def hooks(device, steps):
    loop, kept = Loop(device), []
    loop.model.layers[1].register_forward_hook(lambda module, inputs, output: kept.append(output.detach()))
    for _ in range(steps):
        loop.step(loop.loss(loop.batch()))


class Recurrent(nn.Module):
    """A module that keeps its last output, and goes on from it."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(WIDTH, WIDTH)
        self.last_output = None

    def forward(self, x):
        before = 0.0 if self.last_output is None else self.last_output
        self.last_output = torch.tanh(self.cell(x) + 0.1 * before)
        return self.last_output


def attribute(device, steps):
    model = Recurrent().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    side = Loop(device)
    for _ in range(steps):
        # The graph goes back to the first step; it is never used, and so never freed.
        model(torch.randn(BATCH, WIDTH, device=device))
        side.step(side.loss(side.batch()))
        optimizer.zero_grad(set_to_none=True)


def retained_graph(device, steps):
    loop, total = Loop(device), 0.0
    fixed = torch.randn(WIDTH, WIDTH, device=device, requires_grad=True)
    for number in range(steps):
        total = total + (loop.batch() @ fixed).square().mean()
        # Only now and then, so that a run of hundreds of steps ends soon: the graph is that of all steps all the same.
        if number % 32 == 0:
            total.backward(retain_graph=True)
        loop.step(loop.loss(loop.batch()))


def created_graph(device, steps):
    loop = Loop(device)
    for _ in range(steps):
        loop.loss(loop.batch()).backward(create_graph=True)
        # Gradients are not taken away: each adds its graph to theirs.
        loop.optimizer.step()


def traceback(device, steps):
    loop, errors = Loop(device), []

    def evaluate(batch):
        output = loop.model(batch).detach()
        raise ValueError(f"{len(output)} outputs")

    for _ in range(steps):
        try:
            evaluate(loop.batch())
        except ValueError as error:
            errors.append(error)
        loop.step(loop.loss(loop.batch()))


class Cached(Dataset):
    """A dataset that keeps its items on the GPU, in its class."""

    items = {}

    def __init__(self, device):
        self.device = device

    def __getitem__(self, number):
        if number not in self.items:
            self.items[number] = torch.randn(BATCH, WIDTH, device=self.device)
        return self.items[number]


def dataset(device, steps):
    loop, data = Loop(device), Cached(device)
    for number in range(steps):
        loop.step(loop.loss(data[number]))


def output_with_graph(device, steps):
    loop, outputs = Loop(device), []
    for _ in range(steps):
        output = loop.model(loop.batch())
        outputs.append(output)
        loop.step(loop.loss(loop.batch()))


def carried_state(device, steps):
    # No sum and no attribute: the state goes on from step to step, and retain_graph is what lets backward pass through it again.
    loop, cell = Loop(device), nn.Linear(WIDTH, WIDTH).to(device)
    state = torch.zeros(BATCH, WIDTH, device=device)
    for number in range(steps):
        state = torch.tanh(cell(loop.batch()) + 0.1 * state)
        # Now and then only, so that a run of hundreds of steps ends soon.
        if number % 32 == 0:
            state.square().mean().backward(retain_graph=True)
        loop.step(loop.loss(loop.batch()))


class Record:
    """What a program notes of a step."""

    def __init__(self, number, output):
        self.number, self.output = number, output


def attribute_without_graph(device, steps):
    loop, records = Loop(device), []
    for number in range(steps):
        records.append(Record(number, loop.model(loop.batch()).detach()))
        loop.step(loop.loss(loop.batch()))


# Each with a part of the pattern, of the holder and of the advice that the verdict must give.
LEAKS = {
    "loss_with_graph": (loss_with_graph, "kept with its graph", "losses[…]", "loss.item()"),
    "output_with_graph": (output_with_graph, "kept with its graph", "outputs[…]", "output.detach()"),
    "logged_tensors": (logged_tensors, "container for logging", 'history["outputs"][…]', ".item() or .cpu()"),
    "hooks": (hooks, "hook that keeps activations", "kept", "remove the hook's handle"),
    "attribute": (attribute, "tensor as an attribute", "last_output", "state.detach()"),
    "attribute_without_graph": (attribute_without_graph, "tensors as attributes", ".output", "output.detach().cpu()"),
    "retained_graph": (retained_graph, "retain_graph", "total", "without retain_graph"),
    "carried_state": (carried_state, "retain_graph", "state", "without retain_graph"),
    "created_graph": (created_graph, "create_graph", "gradients of parameters", "torch.autograd.grad"),
    "traceback": (traceback, "stored traceback", "__traceback__", "traceback.format_exc()"),
    "dataset": (dataset, "cache in the dataset", "items[…]", "bound the cache"),
}


def fragmentation(device, steps):
    """As many bytes all the time, in more and smaller pieces of ever more segments of 20 MB."""
    loop, unit = Loop(device), 1 << 20
    kept = []
    for number in range(steps):
        loop.step(loop.loss(loop.batch()))
        count = 32 + number // 6
        # Somewhat less each time, so that roundings do not look like growth.
        size = (128 * unit // count - 1024) // 1024 * 1024
        rest = (20 * unit - size) // 2
        kept.clear()
        spaces = []
        for _ in range(count):
            # A piece and two spaces fill a segment, so that the next piece is in another one.
            kept.append(torch.empty(size, dtype=torch.uint8, device=device))
            spaces += [torch.empty(rest, dtype=torch.uint8, device=device) for _ in range(2)]
        del spaces


def cache_keeps(device, steps):
    """Each step needs much for a moment."""
    loop = Loop(device)
    for _ in range(steps):
        large = torch.empty(600 << 20, dtype=torch.uint8, device=device)
        del large
        loop.step(loop.loss(loop.batch()))


# What is no leak and has a verdict of its own: its kind, a part of its text and of its advice.
VERDICTS = {
    "fragmentation": (fragmentation, "gpu_fragmented", "is in pieces", "expandable_segments:True"),
    "cache_keeps": (cache_keeps, "gpu_cache_keeps", "the caching allocator keeps", ""),
}


def accumulation(device, steps):
    loop = Loop(device)
    for _ in range(steps):
        for _ in range(4):
            (loop.loss(loop.batch()) / 4).backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad(set_to_none=True)


def moving_average(device, steps):
    loop = Loop(device)
    average = copy.deepcopy(loop.model)
    for _ in range(steps):
        loop.step(loop.loss(loop.batch()))
        with torch.no_grad():
            for kept, now in zip(average.parameters(), loop.model.parameters(), strict=True):
                kept.lerp_(now, 0.01)


def growing_lengths(device, steps):
    loop = Loop(device)
    for number in range(steps):
        x = loop.batch(16 + number)
        output = loop.model(x)
        loop.step(output.square().mean())


def evaluation(device, steps):
    loop = Loop(device)
    for number in range(steps):
        loop.step(loop.loss(loop.batch()))
        if number % 20 == 19:
            with torch.no_grad():
                outputs = [loop.model(loop.batch()) for _ in range(20)]
                torch.cat(outputs).mean().item()
            del outputs


def compiled(device, steps):
    loop = Loop(device)
    model = torch.compile(loop.model)
    for number in range(steps):
        size = BATCH if number % 3 else BATCH // 2
        loop.step(model(loop.batch(size)).square().mean())


def checkpointed(device, steps):
    loop = Loop(device)
    for _ in range(steps):
        inner = checkpoint(loop.model.layers, loop.batch(), use_reentrant=False)
        loop.step(loop.model.head(inner).square().mean())


def warm_up(device, steps):
    loop = Loop(device)
    for number in range(steps):
        for group in loop.optimizer.param_groups:
            group["lr"] = 1e-4 * min(1.0, (number + 1) / 100)
        # Layers are added to what is trained, one after the other, in the first quarter.
        if number % 10 == 0 and number < steps // 4:
            loop.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(WIDTH, WIDTH, device=device))]})
        loop.step(loop.loss(loop.batch()))


def rate_finder(device, steps):
    loop = Loop(device)
    before = copy.deepcopy(loop.model.state_dict())
    losses = []
    for number in range(steps):
        for group in loop.optimizer.param_groups:
            group["lr"] = 1e-7 * math.exp(number / steps * 6)
        loss = loop.loss(loop.batch())
        losses.append(loss.item())
        loop.step(loss)
    loop.model.load_state_dict(before)


HEALTHY = {
    "accumulation": accumulation,
    "moving_average": moving_average,
    "growing_lengths": growing_lengths,
    "evaluation": evaluation,
    "compiled": compiled,
    "checkpointed": checkpointed,
    "warm_up": warm_up,
    "rate_finder": rate_finder,
}

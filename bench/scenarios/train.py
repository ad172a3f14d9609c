"""A training loop as people write them: torch on the processor, callbacks, logging hooks, and cycles in all of them."""

from __future__ import annotations

import time

import stage

HISTORY = 200_000


class Callback:
    """Knows its trainer, which knows it."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.log: list[dict] = []

    def after_step(self, loss: float) -> None:
        entry = {"loss": loss, "callback": self, "sizes": [list(p.shape) for p in self.trainer.model.parameters()]}
        entry["self"] = entry
        self.log = (self.log + [entry])[-50:]


class Trainer:
    """A small network, its optimizer, and the history that a real run drags along."""

    def __init__(self, torch):
        self.torch = torch
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.callbacks = [Callback(self) for _ in range(4)]
        self.history = [{"step": step, "values": [step]} for step in range(stage.scaled(HISTORY))]
        self.activations: list = []
        self.model[0].register_forward_hook(lambda module, given, got: self.activations.append((module, got.detach())))

    def step(self) -> float:
        """One optimizer step; its time in milliseconds."""
        began = time.perf_counter()
        with stage.request():
            torch = self.torch
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(torch.randn(64, 128)), torch.randint(0, 10, (64,)))
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.after_step(loss.item())
            self.activations.clear()
        return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    stage.begin()
    try:
        import torch
    except ImportError:
        stage.skip("torch is not installed: pip install torch")
    trainer = Trainer(torch)
    stage.loaded()
    stage.run_loop(trainer.step)

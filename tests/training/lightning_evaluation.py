"""Lightning with evaluations, whose ends cause collections of everything. Run it under `neurogc run`. Needs torch and lightning."""

import logging
import sys
import warnings

import torch
from steps import Boundaries, Steps, grown

try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning

STEPS, EVALUATIONS = 1200, 4
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))

    def training_step(self, batch, index):
        steps.work()
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.layers(inputs), targets)

    def validation_step(self, batch, index):
        if index == 0:
            grown(kept)
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def loader(batches):
    data = torch.utils.data.TensorDataset(torch.randn(32 * batches, 64), torch.randint(0, 4, (32 * batches,)))
    return torch.utils.data.DataLoader(data, batch_size=32)


torch.set_num_threads(1)
kept, steps, boundaries = [], Steps(), Boundaries()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0, val_check_interval=STEPS // EVALUATIONS,
)
trainer.fit(Module(), loader(STEPS), loader(10))
# Not each: the snapshot of the one before may still be on its way.
boundaries.report(1)
sys.exit(steps.report(STEPS, boundaries=EVALUATIONS, evaluates=True))

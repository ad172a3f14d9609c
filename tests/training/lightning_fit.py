"""Lightning's Trainer needs no code: run it under `neurogc run --policy gap`. Needs torch and lightning."""

import logging
import sys
import warnings

import torch
from steps import Steps

try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning

STEPS = 400
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

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.randn(32 * STEPS, 64), torch.randint(0, 4, (32 * STEPS,)))
steps = Steps()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=32))
sys.exit(steps.report(STEPS))

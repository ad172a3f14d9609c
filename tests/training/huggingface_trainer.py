"""The Trainer of Hugging Face needs no code: run it under `neurogc run --policy gap`. Needs torch and transformers."""

import sys
import tempfile
import warnings

import torch
import transformers
from steps import Steps

STEPS = 400
warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))

    def forward(self, inputs, labels=None):
        steps.work()
        logits = self.layers(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


torch.set_num_threads(1)
data = [{"inputs": torch.randn(64), "labels": torch.tensor(number % 4)} for number in range(8 * STEPS)]
steps = Steps()
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder, max_steps=STEPS, per_device_train_batch_size=8, use_cpu=not torch.cuda.is_available(), report_to=[], save_strategy="no",
        disable_tqdm=True,
    )
    transformers.Trainer(Model(), arguments, train_dataset=data).train()
sys.exit(steps.report(STEPS))

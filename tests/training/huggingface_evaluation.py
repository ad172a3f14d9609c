"""The Trainer of Hugging Face with evaluations, whose ends cause collections of everything. Run it under `neurogc run`; needs torch and
transformers.
"""

import sys
import tempfile
import warnings

import torch
import transformers
from steps import Boundaries, Steps, grown

STEPS, EVALUATIONS = 1200, 4
warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
        self.evaluates = False

    def forward(self, inputs, labels=None):
        if self.training:
            steps.work()
        elif not self.evaluates:
            grown(kept)
        self.evaluates = not self.training
        logits = self.layers(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def data(count):
    return [{"inputs": torch.randn(64), "labels": torch.tensor(number % 4)} for number in range(count)]


torch.set_num_threads(1)
kept, steps, boundaries = [], Steps(), Boundaries()
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder, max_steps=STEPS, per_device_train_batch_size=8, use_cpu=not torch.cuda.is_available(), report_to=[], save_strategy="no",
        disable_tqdm=True, eval_strategy="steps", eval_steps=STEPS // EVALUATIONS,
    )
    transformers.Trainer(Model(), arguments, train_dataset=data(8 * STEPS), eval_dataset=data(80)).train()
# Not each: the snapshot of the one before may still be on its way.
boundaries.report(1)
sys.exit(steps.report(STEPS, boundaries=EVALUATIONS, evaluates=True))

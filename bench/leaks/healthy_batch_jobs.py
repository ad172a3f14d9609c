"""Batch jobs: memory rises for ten seconds, and is freed at the end of the batch."""

from pace import rounds

KIND = None

batch = []
for number in rounds(200):
    batch.append({"number": number, "row": bytes(3000)})
    if len(batch) == 2000:
        batch = []

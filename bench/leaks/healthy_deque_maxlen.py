"""A deque with maxlen: it fills up and stays."""

from collections import deque

from pace import rounds

KIND = None

records = deque(maxlen=10_000)
for number in rounds(300):
    records.append({"number": number, "body": bytes(900)})

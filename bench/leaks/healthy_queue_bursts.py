"""A queue that fills up in bursts and is emptied between them."""

import queue
import threading

from pace import rounds

KIND = None

jobs = queue.Queue()


def consume():
    while True:
        jobs.get()


threading.Thread(target=consume, daemon=True).start()
for number in rounds(0.2):
    for index in range(3000):
        jobs.put({"index": index, "body": bytes(2000)})

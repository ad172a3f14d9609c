"""A queue that is filled faster than it is emptied."""

import queue
import threading
import time

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.jobs.queue"

jobs = queue.Queue()


def consume():
    while True:
        jobs.get()
        time.sleep(0.05)


threading.Thread(target=consume, daemon=True).start()
for number in rounds(200):
    jobs.put({"number": number, "body": bytes(800)})  # the leak

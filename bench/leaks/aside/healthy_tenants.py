"""A worker thread and an open file for each of sixty tenants, started when the tenant first comes."""

import queue
import random
import threading

from pace import rounds

KIND = None

choose = random.Random(3)
threading.stack_size(256 * 1024)
tenants = {}


class Tenant:
    def __init__(self):
        self.jobs = queue.Queue()
        self.log = open(__file__)
        self.cache = [bytes(1000) for _ in range(100)]
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while True:
            self.cache[self.jobs.get() % len(self.cache)] = bytes(1000)


for number in rounds(2):
    name = choose.randrange(60)
    if name not in tenants:
        tenants[name] = Tenant()
    tenants[name].jobs.put(number)

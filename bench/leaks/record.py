"""Records the memory of a service under load, for the tests that replay it (crates/diagnose/src/leaks/tests/recorded.csv).

The service does what services do: requests that parse and build JSON, sessions that expire, a cache with a bound, buffers of many
sizes, and a load that varies by a third. Four threads serve. It does not leak. Every second one line is written: the time, the
resident set, what CPython's allocator and what malloc have handed out, all in bytes, and requests per second.

    neurogc run -- python bench/leaks/record.py --seconds 420 --out FILE
"""

import argparse
import json
import math
import random
import threading
import time
from collections import OrderedDict

import neurogc

THREADS = 4
RATE = 60.0
CACHE = 4000


class Service:
    """What four threads share."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sessions, self.cache, self.served = {}, OrderedDict(), 0
        self.rows = [{"id": number, "name": f"row {number}", "tags": [str(number % 7)]} for number in range(150_000)]

    def serve(self, choose):
        """One request."""
        body = json.dumps([choose.choice(self.rows) for _ in range(choose.randrange(5, 300))])
        buffer = bytearray(choose.randrange(1000, 400_000))
        parsed = json.loads(body)
        key = choose.randrange(20_000)
        with self.lock:
            self.cache[key] = parsed[:3]
            if len(self.cache) > CACHE:
                self.cache.popitem(last=False)
            now = time.monotonic()
            self.sessions[key] = (now + choose.expovariate(1 / 20), buffer[:2000])
            if not key % 50:
                for old in [name for name, (until, _) in self.sessions.items() if until < now]:
                    del self.sessions[old]
            self.served += 1

    def work(self, seed, began):
        choose = random.Random(seed)
        while True:
            load = 1 + 0.25 * math.sin((time.monotonic() - began) / 60) + 0.1 * math.sin((time.monotonic() - began) / 9)
            time.sleep(choose.expovariate(RATE * load / THREADS))
            self.serve(choose)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    service, began = Service(), time.monotonic()
    for seed in range(THREADS):
        threading.Thread(target=service.work, args=(seed, began), daemon=True).start()
    served = 0
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("second,rss,python_used,malloc_used,requests\n")
        while (passed := time.monotonic() - began) < options.seconds:
            parts = neurogc.memory.breakdown()
            file.write(f"{passed:.1f},{parts['rss']},{parts['python_used']},{parts['malloc_used']},{service.served - served}\n")
            file.flush()
            served = service.served
            time.sleep(max(0.0, math.floor(passed) + 1 - (time.monotonic() - began)))


if __name__ == "__main__":
    main()

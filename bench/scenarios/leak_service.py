"""A service of BERT inferences, made small. It has a leak, and a plateau that looks like one.

`running_stats` gets an entry for every new token, and none is removed: that is the leak. `records` is full after a minute and
stays as it is. A stand-in takes the place of the model: it allocates as one would. New tokens become rare after three minutes, so that
a demo that runs on does not take all of the memory. `leak_service_fixed.py` is the same with a bound for the tokens.
"""

import collections
import random
import time

import stage

RECORDS = 10_000
REQUESTS_S = 170
TOKENS = 12
VECTOR = 1024
FAST_S = 180

records = collections.deque(maxlen=RECORDS)
running_stats = {}


def infer(tokens):
    """What a model would do with memory: layers, each of which is gone with the next."""
    layer = bytearray(64 * len(tokens))
    for _ in range(4):
        layer = bytearray(len(layer)) + layer[:64]
    return len(layer)


def process_request(number, chance, new, bound):
    """One inference, its statistics and its record. `new` is the share of tokens that were never seen."""
    tokens = [f"token {chance.randrange(1 << 40):x}" if chance.random() < new else f"token {chance.randrange(500)}" for _ in range(TOKENS)]
    score = infer(tokens)
    for token in tokens:
        if token not in running_stats:
            running_stats[token] = [0, bytes(VECTOR)]
        running_stats[token][0] += score
    while bound and len(running_stats) > bound:
        del running_stats[next(iter(running_stats))]
    records.append({"number": number, "score": score, "tokens": len(tokens)})


def main(bound=None):
    """Serves requests of its own until it is ended."""
    stage.begin()
    chance = random.Random(1)
    stage.say(ready=True)
    began, number = time.monotonic(), 0
    while True:
        passed = time.monotonic() - began
        while number < int(passed * REQUESTS_S):
            with stage.request():
                process_request(number, chance, 0.5 if passed < FAST_S else 0.02, bound)
            number += 1
        time.sleep(0.01)


if __name__ == "__main__":
    main()

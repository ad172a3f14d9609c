"""Many threads allocate and free blocks of many sizes; each arena of malloc keeps what was freed."""

import random
import threading

from pace import rounds

KIND = "arena_explosion"
HOLDER = None

BLOCKS = 2000


def work(seed):
    choose = random.Random(seed)
    kept = []
    for _ in rounds(3):
        blocks = [bytearray(choose.randrange(600, 60_000)) for _ in range(BLOCKS)]  # the leak
        # A block here and there stays for a while: what lies below it cannot be returned.
        kept = blocks[:: BLOCKS // 10]
        del blocks
    return kept


threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

"""An executor for each request; none is shut down."""

import threading
from concurrent.futures import ThreadPoolExecutor

from pace import rounds

KIND = "threads"
HOLDER = None

threading.stack_size(256 * 1024)
pools = []
for number in rounds(5):
    pool = ThreadPoolExecutor(2)  # the leak
    pool.submit(len, bytes(30_000)).result()  # the leak
    pools.append(pool)  # the leak

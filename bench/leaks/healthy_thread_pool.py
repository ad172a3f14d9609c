"""A pool of threads that is used again and again."""

from concurrent.futures import ThreadPoolExecutor

from pace import rounds

KIND = None

with ThreadPoolExecutor(16) as pool:
    for number in rounds(100):
        pool.submit(bytes, 100_000).result()

"""A thread per request that waits for ever."""

import threading

from pace import rounds

KIND = "threads"
HOLDER = None

never = threading.Event()


def work(body):
    never.wait()
    return body


threading.stack_size(256 * 1024)
for number in rounds(8):
    threading.Thread(target=work, args=(bytes(50_000),), daemon=True).start()  # the leak

"""gc.freeze() after every batch: the cycles in it are never looked at again."""

import gc

from pace import rounds

KIND = "cyclic_garbage"
HOLDER = None


def work(number):
    node = {"number": number, "pad": bytes(900)}  # the leak
    node["self"] = node


for number in rounds(250):
    work(number)
    if number % 50 == 0:
        gc.freeze()

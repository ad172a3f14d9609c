"""A debugging flag was left on: garbage goes to gc.garbage instead of being freed."""

import gc

from pace import rounds

KIND = "cyclic_garbage"
HOLDER = "gc.garbage"

gc.set_debug(gc.DEBUG_SAVEALL)


def work(number):
    node = {"number": number, "pad": bytes(900)}  # the leak
    node["self"] = node


for number in rounds(250):
    work(number)
    if number % 200 == 0:
        gc.collect()

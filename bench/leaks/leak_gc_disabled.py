"""The collector was switched off, and the program makes cycles."""

import gc

from pace import rounds

KIND = "cyclic_garbage"
HOLDER = None

gc.disable()


def work(number):
    node = {"number": number, "pad": bytes(900)}  # the leak
    node["self"] = node


for number in rounds(250):
    work(number)

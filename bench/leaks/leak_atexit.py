"""Every request registers something for the end of the program."""

import atexit

from pace import rounds

KIND = "callbacks"
HOLDER = "atexit"


def clean_up(body):
    return len(body)


for number in rounds(200):
    atexit.register(clean_up, bytes(900))  # the leak

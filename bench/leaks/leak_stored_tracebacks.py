"""What sys.exc_info() gave is kept: each traceback holds its frames and their variables."""

import sys

from pace import rounds

KIND = "stored_exceptions"
HOLDER = "__main__.failures"

failures = {}


def work(number):
    rows = [number] * 120  # the leak
    return rows[len(rows)]  # the leak


for number in rounds(200):
    try:
        work(number)
    except IndexError:
        failures[number] = sys.exc_info()  # the leak

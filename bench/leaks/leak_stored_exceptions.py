"""Exceptions are collected for a report, with the frames that they came through."""

from pace import rounds

KIND = "stored_exceptions"
HOLDER = "__main__.errors"

errors = []


def work(number):
    payload = bytes(900)  # the leak
    raise ValueError(f"{number}: {len(payload)}")  # the leak


for number in rounds(200):
    try:
        work(number)
    except ValueError as error:
        errors.append(error)  # the leak

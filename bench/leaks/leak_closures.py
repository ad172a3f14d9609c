"""Every request leaves a function behind that holds its body."""

from pace import rounds

KIND = "callbacks"
HOLDER = "__main__.on_shutdown"

on_shutdown = []


def handle(number):
    body = bytes(900)  # the leak
    on_shutdown.append(lambda: (number, body))  # the leak


for number in rounds(200):
    handle(number)

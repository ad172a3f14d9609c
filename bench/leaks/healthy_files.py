"""A file is opened and closed for each request."""

from pace import rounds

KIND = None

for number in rounds(200):
    with open(__file__) as file:
        file.read()

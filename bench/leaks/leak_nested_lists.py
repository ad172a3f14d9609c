"""A defaultdict of lists: the keys are few, the lists grow."""

from collections import defaultdict

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.by_user"

by_user = defaultdict(list)
for number in rounds(300):
    by_user[number % 10].append({"number": number, "text": bytes(500)})  # the leak

"""An object with a dict of sets: users are few, what each has seen is not."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.service.seen"


class Service:
    def __init__(self):
        self.seen = {}

    def visit(self, user, page):
        self.seen.setdefault(user, set()).add(f"{page:0600d}")  # the leak


service = Service()
for number in rounds(250):
    service.visit(f"user-{number % 25}", number)

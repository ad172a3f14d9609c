"""An object that lives as long as the program keeps a history."""

from pace import rounds

KIND = "unbounded_container"
HOLDER = "__main__.service.history"


class Service:
    def __init__(self):
        self.history = []

    def handle(self, number):
        self.history.append({"number": number, "answer": bytes(900)})  # the leak


service = Service()
for number in rounds(200):
    service.handle(number)

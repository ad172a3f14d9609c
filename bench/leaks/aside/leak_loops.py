"""An event loop in a thread of its own for each client; no loop is stopped, so that neither the thread nor its descriptors go."""

import asyncio
import resource
import threading

from pace import rounds

KIND = ("threads", "descriptors")
HOLDER = None

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
threading.stack_size(256 * 1024)


class Client:
    def __init__(self):
        self.loop = asyncio.new_event_loop()  # the leak
        self.inbox = bytearray(20_000)  # the leak
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)  # the leak
        self.thread.start()  # the leak


clients = []
for number in rounds(4):
    clients.append(Client())  # the leak

"""A real server under the agent, and what every server has to get right."""

import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager

from observed import APPS, command, environment, eventually


class Service:
    """A server process on a free loopback port."""

    def __init__(self, words, **env):
        self.port = free_port()
        self.answered = 0  # Requests of `get` that had an answer.
        self._output = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            command(*(str(word).replace("{port}", str(self.port)) for word in words)),
            # The reloaders watch this folder.
            cwd=APPS,
            env=environment(PYTHONPATH=str(APPS), **env),
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def output(self):
        self._output.seek(0)
        return self._output.read()

    def wait_until_it_answers(self):
        def answers():
            if self.process.poll() is not None:
                raise SystemError(f"the server ended with {self.process.returncode}")
            return self.get("/ping") == (200, b"pong")

        try:
            eventually(answers, within=30, what="an answer of the server")
        except (SystemError, AssertionError) as error:
            raise AssertionError(f"{error}\n{self.output()}") from None

    def stop(self):
        """Ends the server politely, then everything that it left."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait(10)

    @contextmanager
    def opened(self, path):
        """A response that has begun, its body not yet read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            # The response holds the socket from now on, so it is what has to be closed.
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def get(self, path):
        with self.opened(path) as response:
            answer = response.status, response.read()
        self.answered += 1
        return answer

    def figures(self):
        """What the application says of itself; asking is a request of its own, in flight while it is answered."""
        return json.loads(self.get("/figures")[1])

    def settled(self):
        """Figures at a moment when every earlier request has ended. The question itself may end a little later."""
        # A report is no photograph: a request that ends while it is made may be missing from both figures. So two
        # reports have to agree that nothing but the questions themselves happened.
        earlier = self.figures()

        def nothing_but_questions():
            nonlocal earlier
            before, earlier = earlier, self.figures()
            quiet = before["in_flight"] == earlier["in_flight"] == 1 and earlier["count"] == before["count"] + 1
            return earlier if quiet else None

        return eventually(nothing_but_questions, what="an idle server")

    def settles_at(self, count, since):
        """Waits until this many requests, and no others, have ended since these figures."""
        questions = 1  # The question that `since` answers had not ended yet.

        def counted():
            nonlocal questions
            now = self.figures()
            grown = now["count"] - since["count"] - questions
            questions += 1
            assert (grown, now["in_flight"]) == (count, 1), f"{grown} requests, {now['in_flight']} in flight"
            return now

        return eventually(counted, what=f"{count} counted requests")


# Below what the kernel gives to outgoing connections, one of which might take a port before its server does; and each
# process that runs tests begins elsewhere.
_PORTS = range(10_000, 32_000)
_ports = itertools.cycle(_PORTS[os.getpid() * 64 % len(_PORTS):] or _PORTS)


def free_port():
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass  # Another process uses the port.

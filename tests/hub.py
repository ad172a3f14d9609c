"""A real hub, and programs that report to it."""

import http.client
import json
import signal
import subprocess
import sys

from observed import TOLD_BY_LINES, ask, binary, environment, eventually, start
from websocket import WebSocket

# A program that does what a line on its stdin says, and answers with a line.
CONSOLE = TOLD_BY_LINES + """
import gc, os, sys, threading, time
import neurogc
def requests(count, seconds):
    for _ in range(count):
        with neurogc.request("test"):
            time.sleep(seconds)
enough = threading.Event()
def flood():
    while not enough.is_set():
        gc.collect(0)
for line in lines():
    print(eval(line), flush=True)
"""


class Hub:
    """A hub on a free port, with history in a folder of the test."""

    def __init__(self, data, *options, token=None, variables=None, **keywords):
        self.data = data
        self._variables = variables or {}
        self._words = [binary(), "hub", "--json", "--data", str(data), *options]
        self._given = token
        self._keywords = keywords
        self.port = 0
        self.start()

    def start(self):
        """Starts it; once more on the same port."""
        env = environment(**({"NEUROGC_HUB_TOKEN": self._given} if self._given else {}), **self._variables)
        words = [*self._words, "--listen", f"127.0.0.1:{self.port}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, env=env, text=True, **pipes, **self._keywords)
        line = self.process.stdout.readline()
        assert line, f"the hub did not start: {self.process.communicate()[1]}"
        said = json.loads(line)
        token = lambda url: url.partition("?token=")[2] or None  # noqa: E731
        self.token, self.read_token, self.report_token = token(said["url"]), token(said["read_url"]), said["report_token"]
        self.port = int(said["listen"].rpartition(":")[2])
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self, how=signal.SIGTERM):
        """Ends it and gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.said = "".join(self.process.communicate(timeout=20))
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.stop()

    def ask(self, method, path, body=None, *, token=..., headers=()):
        """The status and the body of an answer, read as JSON where it is."""
        token = self.token if token is ... else token
        own = dict(headers)
        if token:
            own["Authorization"] = f"Bearer {token}"
        if isinstance(body, dict):
            own["Content-Type"] = "application/json"
            body = json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        try:
            connection.request(method, path, body, own)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.getheader("Content-Type") == "application/json":
            text = json.loads(text)
        return answer.status, text

    def get(self, path):
        """What is at a path of the API."""
        status, body = self.ask("GET", f"/api/v1/{path}")
        assert status == 200, (status, body)
        return body

    def find(self, pid, *, gone=False):
        """The process of this number, if the hub knows it."""
        known = self.get(f"processes?gone={'true' if gone else 'false'}")["processes"]
        return next((process for process in known if process["pid"] == pid), None)

    def wait_for(self, pid, wanted=lambda process: process["latest"]):
        """The process, once the hub knows what is wanted of it."""
        return eventually(lambda: (found := self.find(pid)) and wanted(found) and found, what=f"process {pid} in the hub")

    def live(self, **options):
        """A browser that watches."""
        return WebSocket(self.port, "/api/v1/live", token=self.token, **options)


class Console:
    """A program under the agent, told what to do line by line."""

    def __init__(self, **env):
        self.process = start(sys.executable, "-c", CONSOLE, stdin=subprocess.PIPE, **env)
        self.pid = self.process.pid
        self.do("None")
        eventually(lambda: ask(self.pid), what="the agent")

    def do(self, expression):
        """Evaluates an expression in the program."""
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.process.stderr.read()
        return answer.strip()

    def end(self):
        """Lets the program come to its end."""
        self.process.communicate(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

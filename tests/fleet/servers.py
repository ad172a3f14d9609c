"""Databases of metrics, real ones: Prometheus and VictoriaMetrics, as Debian's packages of these names have them."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.request

import pytest
from observed import eventually

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def got(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.loads(answer.read())


def started(command, port):
    """A server that answers on a port."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, within=60)
    except AssertionError:
        process.kill()
        raise AssertionError(process.communicate()[1][-2000:]) from None
    return process


def _prometheus(port, folder):
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n")
    where = f"--web.listen-address=127.0.0.1:{port}"
    return [f"--config.file={config}", f"--storage.tsdb.path={folder}/data", where, "--web.enable-remote-write-receiver"]


def _victoria(port, folder):
    return [f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}/data", "-search.latencyOffset=0s"]


SERVERS = {"prometheus": _prometheus, "victoria-metrics": _victoria}


@contextlib.contextmanager
def server(name, folder, port=None):
    """A server that keeps metrics in a folder, by the port that it listens on. One that is missing fails the test, unless the run
    asked to leave it out."""
    if shutil.which(name) is None:
        if os.environ.get("NEUROGC_MISSING") == "skip":
            pytest.skip(f"{name} is not installed")
        pytest.fail(f"{name} is not installed: sudo apt install {name}, or NEUROGC_MISSING=skip", pytrace=False)
    port = port or free_port()
    process = started([name, *SERVERS[name](port, folder)], port)
    try:
        yield port
    finally:
        process.kill()
        process.communicate()

"""These tests need packages of their own: `make fleet` makes an environment with them, and runs them there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

collect_ignore_glob = [] if os.environ.get("NEUROGC_SUITE") == "fleet" else ["test_*.py"]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", folder / "key.pem"]
    command += ["-out", folder / "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    return folder

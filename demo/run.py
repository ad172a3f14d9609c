"""`make demo`: starts a small FastAPI service under `neurogc run`, drives it, and prints its status report."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from drive import drive  # noqa: E402
from interpreters import environment, probe  # noqa: E402

BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fast" / "neurogc"
SECONDS = float(os.environ.get("DEMO_SECONDS", "8"))


def main() -> int:
    """The demo, which leaves nothing running whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    interpreter = probe(sys.executable)
    if interpreter is None:
        sys.exit("demo: CPython 3.10 or newer is needed")
    python = environment(interpreter, "demo", ROOT / "demo" / "requirements.txt")
    port = free_port()
    command = [
        BINARY, "run", "--", python, "-m", "uvicorn", "service:app", "--app-dir", ROOT / "demo",
        "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning",
    ]  # fmt: skip
    words = list(map(str, command))
    print(f"demo: {' '.join(['neurogc', *words[1:]])}", flush=True)
    # The service and the demo share a process group: Ctrl-C on a terminal reaches both.
    service = subprocess.Popen(words)
    try:
        wait_for(port, service)
        print(f"demo: driving it for {SECONDS:g} s", flush=True)
        answered, failed, times = drive(port, SECONDS)
        if answered == 0:
            sys.exit("demo: the service answered nothing")
        p50, p99 = (times[min(int(len(times) * share), len(times) - 1)] for share in (0.5, 0.99))
        print(f"demo: {answered} requests, {failed} failed; seen by the client: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
              f"slowest {times[-1]:.1f} ms")  # fmt: skip
        print(f"demo: neurogc status {service.pid}\n", flush=True)
        reported = subprocess.run([BINARY, "status", str(service.pid)]).returncode
        return 1 if failed or reported else 0
    finally:
        stop(service)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return probing.getsockname()[1]


def wait_for(port: int, service: subprocess.Popen[bytes]) -> None:
    """Returns when the service accepts connections."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if service.poll() is not None:
            sys.exit(f"demo: the service ended with {service.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("demo: the service did not listen within 30 s")


def stop(service: subprocess.Popen[bytes]) -> None:
    """Ends the service, politely first."""
    if service.poll() is None:
        service.terminate()
        try:
            service.wait(timeout=10)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ndemo: interrupted, the service is stopped")
        sys.exit(130)

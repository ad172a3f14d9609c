"""Drives the demo's service for some seconds: a few connections, one request after the other on each."""

from __future__ import annotations

import http.client
import random
import threading
import time

CONNECTIONS = 4
PAUSE_S = 0.004
"""Between two requests of a connection, so that the service has gaps, as real ones do."""


def drive(port: int, seconds: float) -> tuple[int, int, list[float]]:
    """Requests that were answered, requests that failed, and the client's own times in milliseconds."""
    end = time.monotonic() + seconds
    times: list[float] = []
    failures: list[str] = []
    threads = [threading.Thread(target=connection, args=(port, end, times, failures)) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(times), len(failures), sorted(times)


def connection(port: int, end: float, times: list[float], failures: list[str]) -> None:
    """One client."""
    chosen = random.Random(threading.get_ident())
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    while time.monotonic() < end:
        path = "/stream" if chosen.random() < 0.004 else f"/record/{chosen.randrange(1_000_000)}"
        start = time.monotonic()
        try:
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
            if answer.status != 200:
                failures.append(f"{path}: {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{path}: {error}")
            client.close()
            time.sleep(0.1)
            continue
        times.append((time.monotonic() - start) * 1000)
        time.sleep(PAUSE_S)
    client.close()

"""Latency as a client sees it: the wait before the application is part of it, and of what is said about stops."""

import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import neurogc
import pytest
from observed import ask, eventually
from service import Service
from test_servers import GRANIAN, GUNICORN, HYPERCORN, UVICORN

pytestmark = pytest.mark.needs_agent

SERVERS = [
    ("uvicorn asyncio", "uvicorn", (*UVICORN, "--loop", "asyncio", "stopping:asgi")),
    ("uvicorn uvloop", "uvicorn uvloop", (*UVICORN, "--loop", "uvloop", "stopping:asgi")),
    ("hypercorn", "hypercorn", (*HYPERCORN, "stopping:asgi")),
    ("granian", "granian", (*GRANIAN, "--interface", "asgi", "stopping:asgi")),
    ("gunicorn sync", "gunicorn", (*GUNICORN, "-k", "sync", "stopping:wsgi")),
    ("gunicorn gthread", "gunicorn", (*GUNICORN, "-k", "gthread", "--threads", "6", "stopping:wsgi")),
    ("gunicorn uvicorn_worker", "gunicorn uvicorn_worker",
     (*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "stopping:asgi")),
    ("werkzeug", "werkzeug", (sys.executable, "stopping.py", "{port}")),
]


def started(words, needs):
    for need in needs.split():
        pytest.importorskip(need, reason=f"{need} is not installed", exc_type=ImportError)
    service = Service(words, NEUROGC_POLICY="observe")
    service.wait_until_it_answers()
    return service


BOTH_KINDS = ("uvicorn asyncio", "gunicorn sync")
"""A server for each interface; of the others one interpreter is enough."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(server, id=server[0], marks=() if server[0] in BOTH_KINDS else pytest.mark.once) for server in SERVERS
    ],
)
def server(request):
    _, needs, words = request.param
    service = started(words, needs)
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def plain():
    service = started((*UVICORN, "--loop", "asyncio", "plain_asgi:app"), "uvicorn")
    try:
        yield service
    finally:
        service.stop()


def status(service):
    return json.loads(service.get("/status")[1])


def asked(service, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse().read()
    finally:
        connection.close()
    service.answered += 1
    return answer


def told(service):
    """The figures of requests, asked for without a request, once all that had an answer are in them."""

    def complete():
        requests = ask(service.process.pid)["requests"]
        assert requests["count"] == service.answered, f"{requests['count']} of {service.answered} requests"
        return requests

    # A client has its answer before the service is done with the request.
    return eventually(complete, what="figures of every request that was answered")


def quantile(latencies, share):
    return sorted(latencies)[min(int(share * len(latencies)), len(latencies) - 1)]


def open_loop(service, rate, seconds):
    """Latencies in ms, each from the moment at which its request was meant to be sent."""
    began = time.perf_counter() + 0.05

    def one(number):
        intended = began + number / rate
        time.sleep(max(0.0, intended - time.perf_counter()))
        service.get("/pong")
        return (time.perf_counter() - intended) * 1e3

    with ThreadPoolExecutor(64) as clients:
        return list(clients.map(one, range(int(rate * seconds))))


@pytest.mark.once
@pytest.mark.timing
def test_a_stop_that_no_request_met_is_in_a_gap(server):
    before = status(server)["gc"]
    server.get("/stop?times=1&seconds=0.4&every=0.2")
    # Asking would be an arrival, so the stop is given its time first.
    time.sleep(1.2)
    after = status(server)["gc"]
    assert after["in_gap"]["total_ms"] - before["in_gap"]["total_ms"] > 100, after
    assert after["in_gap_arrivals"]["total_ms"] - before["in_gap_arrivals"]["total_ms"] < 100, after


@pytest.mark.twice
@pytest.mark.timing
def test_what_waits_during_collections_is_counted_as_the_client_counts_it(server):
    before = status(server)["gc"]
    server.get("/stop?times=5&seconds=0.3&every=0.5")
    seen = open_loop(server, 50, 4.2)
    after = status(server)
    requests, gc = after["requests"], after["gc"]
    for name, share in (("p95_ms", 0.95), ("p99_ms", 0.99)):
        client = quantile(seen, share)
        assert client > 100, client
        assert requests[name] == pytest.approx(client, rel=0.15), (name, client, requests["wait"], requests["waits"])
    assert requests["service"]["p95_ms"] < requests["p95_ms"] / 2, requests["service"]
    assert requests["wait"]["p95_ms"] == pytest.approx(requests["p95_ms"], rel=0.25)
    assert requests["waits"]["measured"] > 0.9 * requests["count"], requests["waits"]

    def grew(place, what):
        return gc[place][what] - before[place][what]

    # The stops fell between requests, and about twelve requests came during each. One may meet a request that runs, and on
    # a busy machine the last one is still to come.
    assert grew("in_gap_arrivals", "count") >= 3 and grew("in_gap_arrivals", "total_ms") > 600, gc
    assert grew("in_gap", "total_ms") < 150, gc
    assert gc["arrivals"] - before["arrivals"] >= 20, gc
    # One that was being served when the stop came has not waited.
    slowest = requests["slowest"]
    assert len(slowest) == 20 and slowest[0]["total_ms"] >= slowest[-1]["total_ms"]
    assert sum(each["gc_ms"] > 100 and each["wait_ms"] > 100 for each in slowest) >= 10, slowest


@pytest.mark.timing
def test_a_calm_service_has_no_waits(plain):
    before = told(plain)
    for _ in range(300):
        assert asked(plain, "/pong") == b"pong"
    after = told(plain)
    assert after["count"] - before["count"] == 300
    # A tick of the kernel's clock is 4 ms. Nothing of it may show where nothing waited.
    assert after["wait"]["p50_ms"] < 0.5 and after["p50_ms"] < 4, after


def test_paths_are_folded_and_routes_bounded(plain):
    for number in range(20):
        asked(plain, f"/item/{number}")
    assert {route["route"]: route["count"] for route in told(plain)["routes"]}["/item/{id}"] == 20
    for number in range(100):
        asked(plain, "/word/" + "abcdefghij"[number // 10] + "klmnopqrst"[number % 10])
    routes = told(plain)["routes"]
    assert len(routes) == 65, len(routes)
    assert sum(route["count"] for route in routes) == told(plain)["count"]
    assert next(route for route in routes if route["route"] == "other")["count"] >= 36


def test_a_proxy_says_when_it_took_the_request(plain):
    before = told(plain)
    for absurd in ("t=1", "soon", f"{time.time() + 3600:.3f}", f"{time.time() - 86400:.3f}", ""):
        asked(plain, "/pong", X_Request_Start=absurd)
    assert told(plain)["wait"]["max_ms"] == before["wait"]["max_ms"] or told(plain)["wait"]["max_ms"] < 400
    asked(plain, "/pong", X_Request_Start=f"t={time.time() - 0.5:.3f}")
    assert 490 < told(plain)["wait"]["max_ms"] < 900
    asked(plain, "/pong", X_Queue_Start=f"{int((time.time() - 1) * 1e6)}")
    after = told(plain)
    assert 990 < after["wait"]["max_ms"] < 1500 and after["max_ms"] >= after["wait"]["max_ms"]
    assert after["service"]["max_ms"] < after["max_ms"]


def test_a_slow_request_keeps_its_trace_id(plain):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    sent = f"t={time.time() - 5:.3f}"
    asked(plain, "/traced", traceparent=f"00-{trace}-00f067aa0ba902b7-01", X_Request_Start=sent)
    asked(plain, "/traced", traceparent="nonsense", X_Request_Start=sent)
    slowest = told(plain)["slowest"][:2]
    assert {slow["trace_id"] for slow in slowest} == {trace, ""}, slowest
    assert all(slow["wait_ms"] > 4000 for slow in slowest), slowest


FRAMEWORKS = [
    ("FastAPI", "uvicorn fastapi", (*UVICORN, "fastapi_app:app")),
    ("Flask", "flask", (sys.executable, "flask_app.py", "werkzeug", "{port}")),
]


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=[framework[0] for framework in FRAMEWORKS])
def test_frameworks_name_the_routes(framework):
    name, needs, words = framework
    service = started(words, needs)
    try:
        for number in range(5):
            service.get(f"/nowhere/{number}")
            service.get("/stream")
        routes = {route["route"]: route["count"] for route in told(service)["routes"]}
        assert routes["(no route)"] == 5 and routes["/stream"] == 5 and "/ping" in routes, routes
    finally:
        service.stop()


def test_a_name_given_by_hand_is_a_route(requests):
    @neurogc.request("embed")
    def embed():
        pass

    for _ in range(3):
        embed()
        with neurogc.request("rerank"):
            pass
    routes = {route["route"]: route["count"] for route in neurogc.status()["requests"]["routes"]}
    assert (routes["embed"], routes["rerank"]) == (3, 3), routes

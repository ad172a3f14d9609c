"""Every server and framework with an adapter: a real server, real requests, exact counts."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from observed import APPS, eventually
from service import Service

PYTHON = sys.executable
UVICORN = (PYTHON, "-m", "uvicorn", "--port", "{port}", "--log-level", "warning")
GUNICORN = (PYTHON, "-m", "gunicorn", "-b", "127.0.0.1:{port}", "--log-level", "warning")
HYPERCORN = (PYTHON, "-m", "hypercorn", "-b", "127.0.0.1:{port}", "--log-level", "warning")
GRANIAN = (PYTHON, "-m", "granian", "--port", "{port}", "--log-level", "warning")

# A name, the packages that it needs, the command line, and what this server or application cannot do.
SERVERS = [
    ("uvicorn httptools uvloop, FastAPI", "uvicorn httptools uvloop fastapi",
     (*UVICORN, "--http", "httptools", "--loop", "uvloop", "fastapi_app:app"), ""),
    ("uvicorn h11 asyncio, Starlette", "uvicorn starlette",
     (*UVICORN, "--http", "h11", "--loop", "asyncio", "starlette_app:app"), ""),
    ("uvicorn --factory, no framework", "uvicorn",
     (*UVICORN, "--factory", "plain_asgi:factory"), "background file"),
    ("uvicorn --reload, no framework", "uvicorn watchfiles",
     (*UVICORN, "--reload", "plain_asgi:app"), "background file"),
    ("uvicorn --interface wsgi, Flask", "uvicorn flask",
     (*UVICORN, "--interface", "wsgi", "flask_app:app"), "background endless"),
    ("uvicorn, Django", "uvicorn django",
     (*UVICORN, "--lifespan", "off", "django_app:asgi_app"), "background"),
    ("hypercorn, FastAPI", "hypercorn fastapi", (*HYPERCORN, "fastapi_app:app"), ""),
    # hypercorn lets a WSGI application run on when its client has left, so the request really does not end.
    ("hypercorn, Flask", "hypercorn flask", (*HYPERCORN, "flask_app:app"), "background endless"),
    ("gunicorn sync, no framework", "gunicorn", (*GUNICORN, "-k", "sync", "plain_wsgi:app"),
     "background together"),
    ("gunicorn gthread, Flask", "gunicorn flask",
     (*GUNICORN, "-k", "gthread", "--threads", "6", "flask_app:app"), "background"),
    ("gunicorn gthread, Django", "gunicorn django",
     (*GUNICORN, "-k", "gthread", "--threads", "6", "django_app:app"), "background"),
    ("gunicorn uvicorn_worker, Starlette", "gunicorn uvicorn_worker starlette",
     (*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "starlette_app:app"), ""),
    ("gunicorn asgi, no framework", "gunicorn.workers.gasgi",
     (*GUNICORN, "-k", "asgi", "plain_asgi:app"), "background file"),
    ("granian ASGI, FastAPI", "granian fastapi", (*GRANIAN, "--interface", "asgi", "fastapi_app:app"), ""),
    ("granian WSGI, Flask", "granian flask",
     (*GRANIAN, "--interface", "wsgi", "--blocking-threads", "6", "flask_app:app"), "background"),
    ("granian RSGI", "granian", (*GRANIAN, "--interface", "rsgi", "plain_rsgi:app"),
     "background file break endless"),
    ("waitress, Flask", "waitress flask", (PYTHON, "flask_app.py", "waitress", "{port}"), "background"),
    ("werkzeug, Flask", "flask", (PYTHON, "flask_app.py", "werkzeug", "{port}"), "background"),
    ("wsgiref, Flask", "flask", (PYTHON, "flask_app.py", "wsgiref", "{port}"), "background together"),
    ("Django's own server", "django", (PYTHON, "django_app.py", "{port}"), "background"),
]


@pytest.fixture(scope="module", params=SERVERS, ids=[server[0] for server in SERVERS])
def server(request):
    _, needs, words, _ = request.param
    for need in needs.split():
        pytest.importorskip(need, reason=f"{need} is not installed", exc_type=ImportError)
    service = Service(words)
    try:
        service.wait_until_it_answers()
        yield service
    finally:
        service.stop()


def test_every_request_is_counted_once(server):
    before = server.settled()
    for _ in range(7):
        assert server.get("/ping") == (200, b"pong")
    after = server.settles_at(7, before)
    assert 0 < after["p50_ms"] <= after["p95_ms"] <= after["p99_ms"] <= after["p999_ms"] <= after["max_ms"]
    assert not [reason for reason in after["degraded"] if "requests of" in reason]


def test_a_stream_is_in_flight_until_its_last_byte(server):
    before = server.settled()
    status, body = server.get("/stream")
    lines = [json.loads(line) for line in body.splitlines()]
    assert status == 200
    # The question before may be counted in the meantime, the stream itself may not.
    assert len(lines) == 5
    assert all(line["in_flight"] in (1, 2) for line in lines)
    assert lines[-1]["count"] - before["count"] <= 1
    server.settles_at(1, before)


def test_an_exception_ends_the_request(server):
    before = server.settled()
    assert server.get("/boom")[0] == 500
    server.settles_at(1, before)


@pytest.mark.ability("break")
def test_an_exception_in_the_middle_of_a_stream_ends_the_request(server):
    before = server.settled()
    with server.opened("/break") as response:
        try:
            assert response.read() == b"first\n"
        except Exception:
            pass  # How a server tells its client is its own affair.
    server.settles_at(1, before)


@pytest.mark.ability("endless")
def test_a_client_that_leaves_ends_the_request(server):
    before = server.settled()
    with server.opened("/endless") as response:
        assert response.read(1000) == b"x" * 1000
    server.settles_at(1, before)


@pytest.mark.ability("file")
def test_a_file_arrives_whole(server):
    before = server.settled()
    status, body = server.get("/file")
    assert status == 200
    assert body in {path.read_bytes() for path in APPS.glob("*.py")}
    server.settles_at(1, before)


@pytest.mark.ability("background")
def test_background_work_is_no_part_of_the_request(server):
    before = server.settled()
    assert server.get("/background") == (200, b"pong")
    eventually(lambda: server.figures()["background"] == 1, what="the background task")
    assert server.settled()["background"] == 1
    server.get("/release")
    eventually(lambda: server.figures()["background"] == 0, what="the end of the background task")
    assert before["background"] == 0


@pytest.mark.ability("together")
def test_concurrent_requests_are_in_flight_together(server):
    before = server.settled()
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: json.loads(server.get("/together")[1]), range(4)))
    # The first handler that answers sees all four, and perhaps the request before.
    assert max(answer["in_flight"] for answer in answers) in (4, 5)
    server.settles_at(4, before)

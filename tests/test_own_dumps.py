"""Heap dumps that a process writes without being asked for: on a MemoryError, on a signal, and near the memory limit."""

import stat
import sys

import ngch
import pytest
from observed import binary, python, run

pytestmark = pytest.mark.needs_agent


def test_a_memory_error_that_ends_the_program_causes_a_dump(tmp_path):
    code = "held = ['held when memory ran out']\nraise MemoryError('none left')"
    done = run(sys.executable, "-c", code, NEUROGC_HEAP_DUMP_ON="oom", NEUROGC_HEAP_DUMP_FOLDER=tmp_path)
    assert done.returncode == 1 and "MemoryError: none left" in done.stderr
    [path] = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert any(it.value == "held when memory ran out" for it in ngch.read(path).objects if it.type.kind == "str")


def test_another_error_causes_none(tmp_path):
    run(sys.executable, "-c", "raise ValueError", NEUROGC_HEAP_DUMP_ON="oom", NEUROGC_HEAP_DUMP_FOLDER=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_causes_no_more_dumps_than_allowed(tmp_path):
    python(f"""
import os, signal, time
deadline = time.monotonic() + 30
def whole():
    return [name for name in os.listdir({str(tmp_path)!r}) if name.endswith(".ngch")]
while len(whole()) < 2:
    assert time.monotonic() < deadline
    os.kill(os.getpid(), signal.SIGUSR2)
    time.sleep(0.1)
os.kill(os.getpid(), signal.SIGUSR2)
time.sleep(0.5)
""", NEUROGC_HEAP_DUMP_ON="USR2", NEUROGC_HEAP_DUMP_FOLDER=tmp_path, NEUROGC_HEAP_DUMP_FILES=2)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not binary(), reason="the command is not built")
def test_the_command_starts_a_program_that_dumps_itself(tmp_path):
    code = "held = ['held when memory ran out']\nraise MemoryError('none left')"
    start = [binary(), "heap", "dump", "--on-oom", "--on-limit", "95%", "-o"]
    done = run(*start, str(tmp_path), "--", sys.executable, "-c", code)
    assert done.returncode == 1 and "MemoryError: none left" in done.stderr
    [path] = tmp_path.iterdir()
    assert any(it.value == "held when memory ran out" for it in ngch.read(path).objects if it.type.kind == "str")
    folder = tmp_path / "without texts"
    folder.mkdir()
    run(*start, str(folder), "--no-text", "--", sys.executable, "-c", code)
    [path] = folder.iterdir()
    texts = {it.value for it in ngch.read(path).objects if it.type.kind == "str"}
    assert "held when memory ran out" not in texts and "held" in texts
    for wrong in (["--on-oom"], ["--on-oom", "4242"], ["--", "true"], ["--on-limit", "5", "--", "true"], []):
        assert run(*start[:3], *wrong).returncode == 2, wrong


def test_a_handler_of_the_program_is_left_alone(tmp_path):
    python("""
import os, signal
import neurogc
seen = []
signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
neurogc.uninstall()
neurogc.install(heap_dump_on="USR2")
os.kill(os.getpid(), signal.SIGUSR2)
assert seen == [1]
assert any("handler of its own" in reason for reason in neurogc.status()["degraded"]), neurogc.status()["degraded"]
""", NEUROGC_HEAP_DUMP_FOLDER=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.twice
@pytest.mark.long(10)
def test_memory_near_its_limit_causes_a_dump(tmp_path):
    python(f"""
import os, time
held = [bytearray(1 << 20) for _ in range(100)]
deadline = time.monotonic() + 30
while not [name for name in os.listdir({str(tmp_path)!r}) if name.endswith(".ngch")]:
    assert time.monotonic() < deadline
    time.sleep(0.01)
""", NEUROGC_HEAP_DUMP_ON="limit=50", NEUROGC_HEAP_DUMP_FOLDER=tmp_path, NEUROGC_MEMORY_MAX_MB=200, NEUROGC_SAMPLE_MS=100)
    [path] = tmp_path.iterdir()
    assert sum(it.type.kind == "bytearray" for it in ngch.read(path).objects) >= 100


SERVED = {
    "flask": """
import flask
app = flask.Flask("served")

@app.get("/")
def fails():
    local = "held by the request"
    raise MemoryError("none left")

@app.get("/caught")
def caught():
    try:
        raise MemoryError("none left")
    except MemoryError:
        return "fine"

@app.get("/other")
def other():
    raise ValueError

answer = lambda path: app.test_client().get(path).status_code
""",
    "starlette": """
import asyncio, starlette.applications, starlette.responses, starlette.routing

async def fails(request):
    local = "held by the request"
    raise MemoryError("none left")

async def caught(request):
    try:
        raise MemoryError("none left")
    except MemoryError:
        return starlette.responses.PlainTextResponse("fine")

async def other(request):
    raise ValueError

routes = [starlette.routing.Route("/" + path, it) for path, it in (("", fails), ("caught", caught), ("other", other))]
app = starlette.applications.Starlette(routes=routes)

def answer(path):
    sent = []
    async def send(message):
        sent.append(message)
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "query_string": b"", "headers": []}
    try:
        asyncio.run(app(scope, None, send))
    except (MemoryError, ValueError):
        # It answers, and hands the error on to the server.
        assert sent
    return sent[0]["status"]
""",
    "django": """
import django.conf, django.core.wsgi, django.http, django.urls, sys

def fails(request):
    local = "held by the request"
    raise MemoryError("none left")

def caught(request):
    try:
        raise MemoryError("none left")
    except MemoryError:
        return django.http.HttpResponse("fine")

def other(request):
    raise ValueError

urlpatterns = [django.urls.path(path, it) for path, it in (("", fails), ("caught", caught), ("other", other))]
django.conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
app = django.core.wsgi.get_wsgi_application()

def answer(path):
    import wsgiref.util
    environ, seen = {"PATH_INFO": path}, []
    wsgiref.util.setup_testing_defaults(environ)
    list(app(environ, lambda status, headers, *error: seen.append(int(status[:3]))))
    return seen[0]
""",
}


@pytest.mark.parametrize("framework", SERVED)
def test_a_memory_error_that_a_server_answers_causes_a_dump(tmp_path, framework):
    pytest.importorskip(framework)
    code = SERVED[framework] + f"""
import os
folder = {str(tmp_path)!r}
assert (answer("/caught"), answer("/other"), os.listdir(folder)) == (200, 500, [])
assert answer("/") == 500
before = os.listdir(folder)
assert len(before) == 1 and before[0].endswith(".ngch"), before
# For some seconds another one causes none: it would tell the same.
assert answer("/") == 500 and os.listdir(folder) == before
"""
    # The frameworks write the errors to stderr.
    done = run(sys.executable, "-c", code, NEUROGC_HEAP_DUMP_ON="oom", NEUROGC_HEAP_DUMP_FOLDER=tmp_path)
    assert done.returncode == 0, done.stderr
    [path] = tmp_path.iterdir()
    dump = ngch.read(path)
    assert any(it.value == "held by the request" for it in dump.objects if it.type.kind == "str")


def test_a_memory_error_passes_through_marks_as_it_is(tmp_path):
    python(f"""
import asyncio, os
import neurogc
from neurogc import _dumps
error = MemoryError("none left")

def fails():
    raise error

async def fails_later():
    raise error

def fails_on_the_way():
    yield 1
    raise error

async def fails_on_the_way_later():
    yield 1
    raise error

async def all_of(values):
    return [value async for value in values()]

def within():
    with neurogc.request():
        fails()

def asgi():
    asyncio.run(neurogc.asgi.Middleware(lambda *_: fails_later())({{"type": "http"}}, None, None))

marked = neurogc.request
uses = [
    marked(fails), lambda: asyncio.run(marked(fails_later)()), lambda: list(marked(fails_on_the_way)()),
    lambda: asyncio.run(all_of(marked(fails_on_the_way_later))), within, asgi,
    lambda: neurogc.wsgi.Middleware(lambda *_: fails())({{}}, None),
    lambda: list(neurogc.wsgi.Middleware(lambda *_: fails_on_the_way())({{}}, None)),
]
for number, use in enumerate(uses, 1):
    _dumps._rest_ends = 0
    try:
        use()
    except MemoryError as seen:
        assert seen is error and vars(seen) == {{}} and seen.__context__ is None is seen.__cause__
    else:
        raise AssertionError(number)
    assert len(os.listdir({str(tmp_path)!r})) == number
neurogc.uninstall()
_dumps._rest_ends = 0
try:
    marked(fails)()
except MemoryError:
    pass
assert len(os.listdir({str(tmp_path)!r})) == len(uses)
""", NEUROGC_HEAP_DUMP_ON="oom", NEUROGC_HEAP_DUMP_FOLDER=tmp_path, NEUROGC_HEAP_DUMP_FILES=20)


def test_a_program_that_is_started_again_and_again_does_not_fill_the_disk(tmp_path):
    for _ in range(3):
        code = "held = ['held when memory ran out']\nraise MemoryError('none left')"
        run(
            sys.executable, "-c", code,
            NEUROGC_HEAP_DUMP_ON="oom", NEUROGC_HEAP_DUMP_FOLDER=tmp_path, NEUROGC_HEAP_DUMP_FILES=2,
            NEUROGC_HEAP_DUMP_TEXT="false",
        )
    paths = list(tmp_path.iterdir())
    assert len(paths) == 2 and all(path.suffix == ".ngch" for path in paths)
    # Texts stay out of them where the settings say so.
    for path in paths:
        texts = {it.value for it in ngch.read(path).objects if it.type.kind == "str"}
        assert "held when memory ran out" not in texts and "held" in texts

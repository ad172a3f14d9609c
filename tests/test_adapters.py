"""The import hook and the adapters: they adapt what is watched, disturb nothing, and leave without a trace."""

import sys

import pytest
from observed import environment, python

FRAMEWORKS = ["starlette.applications", "flask.app", "django.core.handlers.wsgi", "uvicorn.config"]


def test_every_listed_adapter_exists():
    import importlib

    from neurogc.adapters import ADAPTERS

    for module, adapter in ADAPTERS.items():
        assert callable(importlib.import_module("neurogc.adapters." + adapter).adapt), module


def test_modules_imported_before_and_after_are_adapted_and_left_as_they_were():
    pytest.importorskip("flask")
    pytest.importorskip("starlette")
    python("""
import flask.app, neurogc
neurogc.uninstall()
import sys
original = flask.app.Flask.__call__
assert original.__module__ == "flask.app" and not hasattr(original, "__wrapped__")
path = list(sys.meta_path)
neurogc.install()
neurogc.install()
assert flask.app.Flask.__call__ is not original
import starlette.applications
assert starlette.applications.Starlette.__call__.__wrapped__.__qualname__ == "Starlette.__call__"
neurogc.uninstall()
assert flask.app.Flask.__call__ is original
assert not hasattr(starlette.applications.Starlette.__call__, "__wrapped__")
assert sys.meta_path == path
""")


def test_what_others_replaced_since_is_left_alone():
    pytest.importorskip("flask")
    python("""
import flask.app, neurogc
theirs = lambda self, environ, start_response: None
flask.app.Flask.__call__ = theirs
neurogc.uninstall()
assert flask.app.Flask.__call__ is theirs
""")


def test_adapters_can_be_turned_off():
    pytest.importorskip("flask")
    python("""
import sys, flask.app
assert not hasattr(flask.app.Flask.__call__, "__wrapped__")
assert not any(type(finder).__module__.startswith("neurogc") for finder in sys.meta_path)
""", NEUROGC_ADAPTERS="off")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_adapted_module_has_its_own_loader_and_spec(name):
    pytest.importorskip(name)
    python(f"""
import importlib, importlib.machinery, importlib.util, inspect, pickle, pkgutil, sys
found = importlib.util.find_spec({name!r})
assert isinstance(found.loader, importlib.machinery.SourceFileLoader)
assert found.loader.get_source({name!r})
module = importlib.import_module({name!r})
assert type(module.__loader__) is importlib.machinery.SourceFileLoader
assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
assert inspect.getsource(module)
assert pkgutil.get_data({name!r}, module.__file__.rsplit("/")[-1])
assert pickle.loads(pickle.dumps(module.__spec__.loader)).name == {name!r}
""")


def test_reload_adapts_the_new_classes():
    pytest.importorskip("flask")
    python("""
import importlib, flask.app
before = flask.app.Flask
again = importlib.reload(flask.app)
assert again.Flask is not before
assert hasattr(again.Flask.__call__, "__wrapped__")
assert not hasattr(again.Flask.__call__.__wrapped__, "__wrapped__")
""")


def test_a_failing_import_fails_as_it_would_have(tmp_path):
    (tmp_path / "flask").mkdir()
    (tmp_path / "flask" / "__init__.py").write_text("")
    (tmp_path / "flask" / "app.py").write_text("raise KeyError('inside')")
    python("""
import sys, traceback
try:
    import flask.app
except KeyError as error:
    assert error.args == ("inside",)
else:
    raise SystemExit("no error")
assert "flask.app" not in sys.modules
try:
    import django.core.handlers.wsgi.missing
except ImportError:
    pass
""", PYTHONPATH=tmp_path)


def test_a_module_of_a_watched_name_that_is_something_else_is_left_alone(tmp_path):
    (tmp_path / "flask").mkdir()
    (tmp_path / "flask" / "__init__.py").write_text("")
    (tmp_path / "flask" / "app.py").write_text("answer = 42")
    out = python("""
import flask.app, neurogc
print(flask.app.answer)
print(neurogc.status()["degraded"])
""", PYTHONPATH=tmp_path)
    assert out.startswith("42\n")
    assert "requests of flask.app are not measured" in out


def test_a_watched_module_in_a_zip_file_is_adapted(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("flask/__init__.py", "")
        archive.writestr("flask/app.py", "class Flask:\n    def __call__(self, environ, start): return [b'x']")
    python("""
import flask.app, inspect, neurogc, zipimport
assert type(flask.app.__loader__) is zipimport.zipimporter
assert hasattr(flask.app.Flask.__call__, "__wrapped__")
flask.app.Flask()({}, None).close()
assert neurogc.status()["requests"]["count"] == 1
""", PYTHONPATH=tmp_path / "lib.zip")


def test_another_import_hook_sees_and_gets_what_it_would_have():
    pytest.importorskip("flask")
    python("""
import importlib.util, sys
class Hook:
    asking = False
    seen = []
    def find_spec(self, name, path=None, target=None):
        if name != "flask.app" or self.asking:
            return None
        Hook.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            Hook.asking = False
        self.seen.append(spec)
        return spec
sys.meta_path.insert(0, Hook())
import flask.app
assert len(Hook.seen) == 1
assert hasattr(flask.app.Flask.__call__, "__wrapped__")
assert not hasattr(flask.app.Flask.__call__.__wrapped__, "__wrapped__")
""")


def test_a_lazy_loader_is_adapted_when_it_loads():
    pytest.importorskip("flask")
    python("""
import importlib.util, sys, flask
del sys.modules["flask.app"]
spec = importlib.util.find_spec("flask.app")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["flask.app"] = module
spec.loader.exec_module(module)
assert hasattr(module.Flask.__call__, "__wrapped__")
""")


def test_frameworks_count_without_a_server():
    pytest.importorskip("starlette")
    pytest.importorskip("django")
    pytest.importorskip("fastapi")
    python("""
import asyncio, inspect, time, neurogc
from starlette.applications import Starlette
from fastapi import FastAPI
async def call(app, **scope):
    sent = []
    async def receive(): return {"type": "http.request", "body": b""}
    async def send(message): sent.append(message)
    scope = {"type": "http", "path": "/", "method": "GET", "headers": [], "query_string": b"", **scope}
    await app(scope, receive, send)
    return sent
for app in (Starlette(), FastAPI()):
    assert inspect.iscoroutinefunction(app.__call__)
    assert asyncio.run(call(app))[0]["status"] == 404
# On a busy machine the books are written up a moment later.
for _ in range(500):
    if neurogc.status()["requests"]["count"] == 2:
        break
    time.sleep(0.01)
assert neurogc.status()["requests"]["count"] == 2, neurogc.status()["requests"]
""")


def test_selectors_keep_their_identity_and_the_loop_tells_of_its_turns():
    python("""
import asyncio, gc, selectors, neurogc
from neurogc.adapters import asyncio_loop
turns = []
asyncio_loop.progress = lambda: turns.append(1)
assert selectors.DefaultSelector is selectors.EpollSelector
assert type(selectors.DefaultSelector()) is selectors.EpollSelector
async def main():
    assert isinstance(asyncio.get_running_loop()._selector, selectors.EpollSelector)
    for _ in range(10):
        await asyncio.sleep(0)
asyncio.run(main())
assert 20 <= len(turns) <= 40, turns
class Own(selectors.EpollSelector):
    pass
loop = asyncio.SelectorEventLoop(Own())
assert type(loop._selector) is Own
loop.close()
seen = len(turns)
selectors.DefaultSelector().select(0)
assert len(turns) == seen
""")


def test_a_loop_that_runs_already_is_watched():
    python("""
import asyncio, neurogc
async def main():
    neurogc.install()
    from neurogc.adapters import asyncio_loop
    assert type(asyncio.get_running_loop()._selector) is asyncio_loop.WatchedSelector
neurogc.uninstall()
asyncio.run(main())
""")


def test_event_loops_that_come_and_go_leave_no_more_garbage_than_without_us():
    code = """
import asyncio, gc
async def main(): pass
asyncio.run(main())
gc.collect()
gc.disable()
for _ in range(5): asyncio.run(main())
print(gc.collect())
"""
    assert python(code) == python(code, NEUROGC_ADAPTERS="off")


def test_importing_is_light():
    heavy = {"inspect", "typing", "dataclasses", "json", "asyncio", "functools", "importlib.util", "threading"}
    code = "import sys; print(' '.join(sys.modules))"
    observed = set(python(code).split())
    import os
    import subprocess

    # Filters of warnings bring modules along.
    env = {**os.environ, "PYTHONWARNINGS": environment()["PYTHONWARNINGS"]}
    plain = set(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.split())
    assert not (observed - plain) & heavy

"""Fixtures of the Python-level tests, and the rule for tests that need the extension module."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import neurogc  # noqa: E402
from neurogc import _native  # noqa: E402

HAS_AGENT = _native.agent.__name__.endswith("._agent")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_agent: needs the extension module; fails without it, unless NEUROGC_ALLOW_FALLBACK=1"
    )
    config.addinivalue_line("markers", "timing: judges time, processor share or memory over time; runs on a quiet machine")
    config.addinivalue_line("markers", "once: does not depend on the interpreter; `make test` runs it on one of them")
    config.addinivalue_line("markers", "twice: hardly depends on the interpreter; `make test` runs it on the oldest and newest")
    config.addinivalue_line("markers", "long(seconds): mostly waits; it is among the first tests, so that others run meanwhile")
    config.addinivalue_line("markers", "race: depends on who comes first; `make soak` repeats it")
    config.addinivalue_line("markers", "ability(name): only for servers that are not listed as lacking it")


def pytest_generate_tests(metafunc):
    """Repeats what depends on who comes first, where the run asks for it."""
    times = int(os.environ.get("NEUROGC_TEST_TIMES", "1"))
    if times > 1 and metafunc.definition.get_closest_marker("race") is not None:
        metafunc.fixturenames.append("_turn")
        metafunc.parametrize("_turn", range(times), indirect=True)


@pytest.fixture
def _turn(request):
    """Which repetition of a test this is."""
    return request.param


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out the combinations of test and server that do not exist, so that a skip always means a loss; sorts."""
    lacking = []
    for item in items:
        ability = item.get_closest_marker("ability")
        if ability is not None and ability.args[0] in item.callspec.params["server"][-1].split():
            lacking.append(item)
    if lacking:
        config.hook.pytest_deselected(items=lacking)
        items[:] = [item for item in items if item not in set(lacking)]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = long_ones_first(items, workers)


def long_ones_first(items, workers):
    """The order in which tests that wait long are at the heads of the workers' shares, so that none is left for the end."""
    waits = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("long"))}
    heads = [[] for _ in range(workers)]
    for item in sorted(waits, key=waits.get, reverse=True):
        min(heads, key=lambda head: sum(waits[each] for each in head)).append(item)
    others = [item for item in items if item not in waits]
    order = []
    for number, head in enumerate(heads):
        room = (len(items) - len(order)) // (workers - number) - len(head)
        order += head + others[:room]
        del others[:room]
    return order


def pytest_runtest_setup(item):
    if HAS_AGENT or item.get_closest_marker("needs_agent") is None:
        return
    if os.environ.get("NEUROGC_ALLOW_FALLBACK") == "1":
        pytest.skip("the extension module is not built, and NEUROGC_ALLOW_FALLBACK=1")
    pytest.fail("python/neurogc/_agent.abi3.so could not be loaded: build it first (make build)", pytrace=False)


@pytest.fixture(scope="session")
def _installed():
    # The settings of the test run are not settings of an agent, but programs that tests start need them again.
    own = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("NEUROGC_")}
    try:
        neurogc.install(policy="observe", adapters=False)
    finally:
        os.environ.update(own)
    yield
    neurogc.uninstall()


@pytest.fixture
def requests(_installed):
    """Requests measured in this very process since the test began."""
    return Requests()


class Requests:
    """Counts relative to the moment of construction."""

    def __init__(self):
        self._before = self._now()

    @staticmethod
    def _now():
        return neurogc.status()["requests"]

    @property
    def count(self):
        return self._now()["count"] - self._before["count"]

    @property
    def in_flight(self):
        return self._now()["in_flight"] - self._before["in_flight"]

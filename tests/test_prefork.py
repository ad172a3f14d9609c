"""Pre-fork servers: under a policy that conducts, workers keep sharing what they inherit."""

import json
import sys

import pytest
from observed import ask, eventually, python
from service import Service

pytestmark = pytest.mark.needs_agent

GUNICORN = (sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:{port}", "--log-level", "warning")
HEAP = 300_000
HEAP_BYTES = 20 << 20


@pytest.fixture
def served():
    """Starts gunicorn with the application that has a heap; each test says how."""
    pytest.importorskip("gunicorn")
    running = []

    def start(*words, **env):
        service = Service((*GUNICORN, *words, "preloaded:app"), **env)
        running.append(service)
        service.wait_until_it_answers()
        return service

    yield start
    for service in running:
        service.stop()


def heap(service):
    return json.loads(service.get("/heap")[1])


def grown_by_a_full_collection(service):
    return json.loads(service.get("/collect")[1])["grown"]


def test_workers_keep_sharing_what_the_master_has_loaded(served):
    service = served("--preload", NEUROGC_POLICY="gap")
    worker = heap(service)
    assert worker["frozen"] > HEAP, worker["frozen"]
    assert eventually(lambda: ask(worker["pid"]))["gc"]["frozen"] > HEAP
    # The master keeps its heap as it was: CPython 3.12 freezes a few hundred objects by itself.
    assert ask(worker["parent"])["gc"]["frozen"] < 1000
    assert grown_by_a_full_collection(service) < HEAP_BYTES / 4


@pytest.mark.parametrize(
    ("words", "policy"),
    [(("--preload",), "observe"), ((), "gap"), (("--preload",), "threshold:5000,10,10")],
    ids=["watched", "not preloaded", "baseline"],
)
def test_nothing_is_frozen_where_nothing_is_to_be_shared(served, words, policy):
    assert heap(served(*words, NEUROGC_POLICY=policy))["frozen"] < 1000


def test_without_us_a_full_collection_unshares_the_heap(served):
    # Otherwise the test above would prove nothing.
    assert grown_by_a_full_collection(served("--preload", NEUROGC_POLICY="observe")) > HEAP_BYTES / 2


def test_a_frozen_heap_does_not_bring_more_full_collections(served):
    service = served("--preload", NEUROGC_POLICY="gap")
    # Half a million objects: CPython 3.11 and 3.12 would collect a small old heap five times in this, and where they
    # are made. Our own collections fall between the requests, more of them where the machine is slow.
    full = sum(int(service.get("/session")[1]) for _ in range(600))
    assert full <= 1, (full, ask(heap(service)["pid"])["gc"])


FORK = """
import gc, os, neurogc
from neurogc._native import agent
class Node: pass
kept = [Node() for _ in range(20_000)]
def frozen_in_child():
    receives, sends = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sends, str(gc.get_freeze_count()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(sends)
    answer = int(os.read(receives, 100))
    os.close(receives)
    return answer
at_first = gc.get_freeze_count()
"""


def forked(code, policy="gap", **env):
    python(FORK + code, "-W", "ignore::DeprecationWarning", NEUROGC_POLICY=policy, **env)


def test_a_worker_is_frozen_in_the_child_and_nothing_else_is():
    forked("""
assert agent.forks_workers(True)
assert frozen_in_child() > 20_000
assert frozen_in_child() > 20_000       # A server has more than one.
agent.forks_workers(False)
assert frozen_in_child() == at_first    # Any other fork.
assert gc.get_freeze_count() == at_first
""")


@pytest.mark.parametrize(
    "takes_over",
    ["gc.disable()", "gc.set_threshold(700, 10, 10)", "neurogc.uninstall()", "neurogc.install(policy='observe')"],
)
def test_a_program_that_is_not_conducted_is_not_frozen(takes_over):
    forked(f"""
{takes_over}
assert not agent.forks_workers(True)
assert frozen_in_child() == at_first
""")


def test_a_program_that_has_frozen_its_heap_is_left_alone():
    forked("""
agent.forks_workers(True)
gc.freeze()                             # As a server's own hook before the fork does.
own = gc.get_freeze_count()
later = [Node() for _ in range(20_000)]
assert own <= frozen_in_child() < own + 1000, (own, frozen_in_child())
""")


def test_workers_of_a_dataloader_share_what_they_inherit(tmp_path):
    # A stand-in: what PyTorch itself does is tested where it is installed (tests/frameworks).
    folder = tmp_path / "torch" / "utils" / "data"
    folder.mkdir(parents=True)
    for package in (tmp_path / "torch", tmp_path / "torch" / "utils", folder):
        (package / "__init__.py").write_text("")
    (folder / "dataloader.py").write_text("""
class _BaseDataLoaderIter:
    def __next__(self):
        raise StopIteration
class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        self.answers = [loader() for _ in range(2)]
""")
    forked("""
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
answers = _MultiProcessingDataLoaderIter(frozen_in_child).answers
assert min(answers) > 20_000, answers
assert frozen_in_child() == gc.get_freeze_count() == at_first
assert neurogc.status()["degraded"] == []
""", PYTHONPATH=tmp_path)

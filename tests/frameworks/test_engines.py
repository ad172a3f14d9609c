"""vLLM and SGLang: their own loaders load the plugin, their own loops run under it. There is no GPU and no PyTorch here."""

import json
import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from observed import HOME, ROOT, binary

pytestmark = pytest.mark.skipif(not binary(), reason="the agent is not built")

HERE = Path(__file__).resolve().parent

# What both programs need: garbage as a scheduler makes it, and where collections of it began.
NOTING = """
import gc, json, sys
class Node:
    def __init__(self):
        self.me = self
def work():
    for _ in range(2000):
        Node()
waits = []
def note(phase, info):
    frame, names = sys._getframe(), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    if phase == "start" and names & {"execute_and_use_the_wait", "process_and_end"} and "gap" not in names:
        waits.append("stand_in" not in names)
def tell():
    import neurogc
    report = neurogc.status()
    routes = {route["route"]: route["count"] for route in report["requests"]["routes"]}
    print(json.dumps({"routes": routes, "in_flight": report["requests"]["in_flight"], "waits": sum(waits),
                      "in_gap": report["gc"]["in_gap"]["count"], "degraded": report["degraded"]}))
"""

VLLM = NOTING + """
import engine_parts
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from vllm.plugins import load_general_plugins
def collective_rpc(self, method, args=(), non_block=False, single_value=False):
    future = Future()
    future.set_result(self.worker.execute_model(*args))
    return future if non_block else future.result()
engine_parts.STAND_INS["collective_rpc"] = collective_rpc
load_general_plugins()
load_general_plugins()
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.worker.worker_base import WorkerWrapperBase
class Scheduler:
    def has_requests(self):
        return True
    def schedule(self, throttle=False):
        work()
        return SimpleNamespace(total_num_scheduled_tokens=1, pending_structured_output_tokens=False)
    def get_grammar_bitmask(self, output):
        return None
    def update_from_output(self, scheduled, output):
        return {0: output}
worker = WorkerWrapperBase()
worker._apply_mm_cache = lambda output: None
worker.worker = SimpleNamespace(execute_model=lambda output: "tokens")
executor = UniProcExecutor()
executor.worker = worker
executor.sample_tokens = lambda grammar, non_block=False: executor.execute_model(None, non_block=non_block)
engine = EngineCore()
vars(engine).update(
    scheduler=Scheduler(), model_executor=executor, batch_queue=None, batch_queue_size=2, is_mm_encoder_only=False,
    is_pooling_model=False, check_for_draft_tokens=False, _should_throttle_prefills=lambda: False,
    capture_iteration_details=lambda output: nullcontext(), log_error_detail=lambda output: nullcontext(),
    _process_aborts_queue=lambda: None, _attach_iteration_details=lambda outputs, details: None,
    _attach_weight_version=lambda outputs: None,
)
gc.callbacks.append(note)
for _ in range(100):
    assert engine.step() == ({0: "tokens"}, True)
from collections import deque
engine.batch_queue = deque()
outputs = []
for _ in range(100):
    outputs += (engine.step_with_batch_queue()[0] or {}).values()
assert outputs == ["tokens"] * 99, outputs
def fails(output):
    raise RuntimeError("the engine's own")
worker.worker.execute_model = fails
try:
    engine.step()
except RuntimeError as error:
    assert str(error) == "the engine's own"
# A worker in a process of its own.
worker.worker.execute_model = lambda output: "tokens"
for _ in range(7):
    assert worker.execute_model(None) == "tokens"
tell()
"""

SGLANG = NOTING + """
import engine_parts
from types import SimpleNamespace
from sglang.srt.plugins import load_plugins
BATCHES = 50
class Batch:
    def copy(self):
        return self
def run_batch(self, batch, pp_proxy_tensors=None):
    work()
    self.ran += 1
    return self.ran
def process_batch_result(self, batch, result):
    self.results.append(result)
def on_idle(self):
    self.gracefully_exit = True
engine_parts.STAND_INS.update(run_batch=run_batch, process_batch_result=process_batch_result, on_idle=on_idle)
load_plugins()
load_plugins()
from sglang.srt.managers.scheduler import Scheduler
def scheduler():
    made = Scheduler()
    def plan(running_batch=None, last_batch=None):
        return SimpleNamespace(running_batch=None, batch_to_run=Batch() if made.ran < BATCHES else None)
    vars(made).update(
        ran=0, results=[], gracefully_exit=False, _engine_paused=False, running_batch=None, last_batch=None,
        is_generation=True, enable_unified_memory=False, ingest_requests=lambda: None, get_next_batch_to_run=plan,
        is_disable_overlap_for_batch=lambda batch, last_batch=None: False, _apply_war_barrier=lambda: None,
        launch_batch_sample_if_needed=lambda result, batch: None,
    )
    return made
gc.callbacks.append(note)
for loop in ("event_loop_normal", "event_loop_overlap"):
    made = scheduler()
    getattr(made, loop)()
    assert made.results == list(range(1, BATCHES + 1)), made.results
    assert not [name for name in vars(made) if "neurogc" in name]
tell()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what an installed package says of its entry points."""
    tomllib = pytest.importorskip("tomllib")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path_factory.mktemp("installed") / "neurogc-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: neurogc\nVersion: 0.1.0\n")
    groups = (f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in them.items()) for group, them in declared.items())
    (folder / "entry_points.txt").write_text("\n".join(groups))
    return folder.parent


def engine(code, *paths, **env):
    """Runs a program that has NeuroGC installed, and is not started by it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    path = os.pathsep.join(map(str, [*paths, HERE, HOME.parent]))
    words = [sys.executable, "-c", textwrap.dedent(code)]
    own |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run(words, env=own, capture_output=True, text=True, timeout=120)


def told(code, *paths, **env):
    done = engine(code, *paths, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_packages_are_those_that_the_docs_name():
    page = (ROOT / "docs" / "frameworks.md").read_text()
    assert metadata.version("vllm") in page and metadata.version("sglang") in page


def test_vllm_loads_the_plugin_and_its_steps_are_counted(installed):
    report = told(VLLM, installed, VLLM_PLUGINS="neurogc", NEUROGC_POLICY="gap")
    assert report["routes"] == {"engine step": 201, "worker step": 7} and report["in_flight"] == 0, report
    assert report["waits"] > 0 and report["in_gap"] > 0 and report["degraded"] == [], report


def test_sglang_loads_the_plugin_and_its_steps_are_counted(installed):
    report = told(SGLANG, installed, SGLANG_PLUGINS="other, neurogc", NEUROGC_POLICY="gap")
    assert report["routes"] == {"engine step": 100} and report["in_flight"] == 0, report
    assert report["waits"] > 0 and report["in_gap"] > 0 and report["degraded"] == [], report


LOADERS = {
    "vllm": "from vllm.plugins import load_general_plugins as load",
    "sglang": "from sglang.srt.plugins import load_plugins as load",
}


@pytest.mark.parametrize("name", LOADERS)
def test_an_engine_that_does_not_ask_for_it_has_no_agent(installed, name):
    done = engine(f"import engine_parts, sys\n{LOADERS[name]}\nload()\nprint('neurogc' in sys.modules, 'neurogc_engines' in sys.modules)",
                  installed)
    assert done.stdout.split() == ["False", "True"], (done.stdout, done.stderr)


@pytest.mark.parametrize("name", LOADERS)
def test_a_package_that_cannot_be_imported_does_not_stop_an_engine(installed, tmp_path, name):
    (tmp_path / "neurogc.py").write_text("raise MemoryError('no room')")
    variable = {"vllm": "VLLM_PLUGINS", "sglang": "SGLANG_PLUGINS"}[name]
    done = engine(f"import engine_parts\n{LOADERS[name]}\nload()\nprint('serving')", tmp_path, installed, **{variable: "neurogc"})
    assert done.returncode == 0 and done.stdout == "serving\n", done.stderr
    assert "neurogc: this engine runs unobserved: MemoryError: no room" in done.stderr, done.stderr


def test_an_engine_with_other_methods_runs_unmarked_and_says_so(installed):
    report = told("""
        import engine_parts, json, sys, types
        from importlib.machinery import ModuleSpec
        from vllm.plugins import load_general_plugins
        class Other:
            def find_spec(self, name, path=None, target=None):
                return ModuleSpec(name, self) if name == "vllm.v1.engine.core" else None
            def create_module(self, spec):
                return None
            def exec_module(self, module):
                exec("class EngineCore:\\n    def advance(self):\\n        return 1", vars(module))
        sys.meta_path.insert(0, Other())
        load_general_plugins()
        from vllm.v1.engine.core import EngineCore
        import neurogc
        print(json.dumps([EngineCore().advance(), neurogc.status()["degraded"]]))
    """, installed, VLLM_PLUGINS="neurogc")
    assert report[0] == 1 and any("vllm.v1.engine.core" in reason for reason in report[1]), report

"""Where the extension module cannot be loaded: the same face, fewer figures, and a reason."""

import gc
import re
import subprocess
import sys

import pytest
from observed import HOME, ROOT, environment

WITHOUT_AGENT = f"""
import sys
sys.path.insert(0, {str(HOME.parent)!r})
sys.modules["neurogc._agent"] = None
import neurogc
assert neurogc._native.agent.__name__ == "neurogc._fallback"
"""


def fallback(code, *options):
    own = {name: value for name, value in environment().items() if not name.startswith(("NEUROGC", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, *options, "-c", WITHOUT_AGENT + code], env=own, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.skipif(hasattr(gc, "callbacks"), reason="this interpreter tells of its collections")
def test_an_interpreter_that_hides_its_collections_is_said_to():
    fallback("""
neurogc.install()
with neurogc.request():
    pass
status = neurogc.status()
assert status["requests"]["count"] == 1 and status["memory"]["rss"] > 0, status
assert any("does not tell of its collections" in reason for reason in status["degraded"]), status
neurogc.uninstall()
""")


@pytest.mark.skipif(not hasattr(gc, "callbacks"), reason="this interpreter does not tell of its collections")
def test_collections_requests_and_memory_are_measured_and_the_rest_is_explained():
    fallback("""
import gc
neurogc.install()
with neurogc.request():
    gc.collect()
gc.collect(0)
status = neurogc.status()
assert status["gc"]["full"]["count"] == status["gc"]["in_request"]["count"] == 1, status["gc"]
assert status["gc"]["young"]["count"] >= 1
assert status["requests"]["count"] == 1 and status["requests"]["p50_ms"] > 0
assert status["memory"]["rss"] > 1_000_000
assert (status["policy"], status["policy_set"]) == ("observe", "auto")
assert len(status["degraded"]) == 1 and "the extension module" in status["degraded"][0]
neurogc.uninstall()
assert not gc.callbacks
""", "-W", "error")


def test_the_report_has_every_field_of_the_real_one():
    """Its fields and their types are those of the empty report that is written from the definition of the report."""
    import json

    def check(value, empty, where):
        assert set(value) == set(empty), where
        for name, known in empty.items():
            if isinstance(known, dict):
                check(value[name], known, f"{where}.{name}")
            elif known is not None:
                assert type(value[name]) is type(known), (where, name, value[name])

    report, empty = json.loads(fallback("""
import json
from neurogc import _generated
neurogc.install()
print(json.dumps([neurogc.status(), _generated.REPORT]))
"""))
    check(report, empty, "status")
    assert empty["requests"]["count"] == 0 and empty["memory"]["pss"] is None


def test_forked_children_begin_anew():
    fallback("""
import os
neurogc.install()
with neurogc.request(): pass
child = os.fork()
if child == 0:
    status = neurogc.status()
    os._exit(0 if (status["pid"], status["requests"]["count"]) == (os.getpid(), 0) else 1)
assert os.waitpid(child, 0)[1] == 0
""")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("policy='obsrve'", "Did you mean observe?"),
        ("policy='every'", "is not complete: write every:N"),
        ("policy='gap:5'", "there is no policy"),
        ("policy='threshold:1,2'", "is not complete: write threshold:G0,G1,G2"),
        ("policy='classic:2'", "is not complete: write classic"),
        ("explicit_collect='never'", "it must be keep or defer"),
        ("stal_ms=1", "Did you mean stall_ms"),
        ("sample_ms=1", "it must be a number from 100 to 60000"),
        ("adapters='perhaps'", "it must be true or false"),
    ],
)
def test_settings_are_checked_alike(call, expected):
    fallback(f"""
try:
    neurogc.install({call})
except ValueError as error:
    assert {expected!r} in str(error), error
else:
    raise SystemExit("no error")
""")


@pytest.mark.parametrize("policy", ["gap", "every:100", "threshold:700,10,10", "classic", "classic:0.55", "neural", "freeze"])
def test_a_policy_that_acts_is_only_measured_and_said_to(policy):
    fallback(f"""
neurogc.install(policy={policy!r})
status = neurogc.status()
assert status["policy"] == {policy!r} and not status["conduct"]["acting"], status
assert any("only measured" in reason for reason in status["degraded"]), status["degraded"]
""")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no tomllib")
def test_the_settings_file_is_read(tmp_path):
    file = tmp_path / "neurogc.toml"
    file.write_text('policy = "cpython"\nmemory_percent = 80\npostpone_s = 7.5\nadapters = false\n')
    fallback(f"""
import os
os.environ["NEUROGC_CONFIG"] = {str(file)!r}
os.environ["NEUROGC_POSTPONE_S"] = "8"
neurogc.install()
status = neurogc.status()
assert status["policy"] == "cpython", status["policy"]
guards = status["conduct"]["guards"]
assert (guards["memory_percent"], guards["postpone_s"], guards["growth_percent"]) == (80.0, 8.0, 25.0), guards
assert not neurogc._native.agent.adapters()
neurogc.uninstall()
with open({str(file)!r}, "w") as wrong:
    wrong.write("stall_ms = 0")
os.environ["NEUROGC_ROOT_PID"] = "1"
neurogc.install()
[told] = [reason for reason in neurogc.status()["degraded"] if "it must be a number from 1 to 60000" in reason]
assert {str(file)!r} in told, told
""")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("heap.dump(sys.argv[1])", "no heap dumps here: the extension module of neurogc could not be loaded"),
        ("heap.count()", "no counts by type here: the extension module of neurogc could not be loaded"),
        ("memory.sites()", "allocations are sampled by the extension module only"),
        ("memory.sites(since=60)", "allocations are sampled by the extension module only"),
        ("memory.breakdown()", "only the extension module reads"),
        ("memory.trim()", "only the extension module gives memory back"),
        ("memory.growth().__enter__()", "allocations cannot be counted"),
    ],
)
def test_what_only_the_extension_can_do_raises_the_reason(tmp_path, call, expected):
    path = tmp_path / "heap.ngch"
    fallback(f"""
import sys
sys.argv = ["", {str(path)!r}]
neurogc.install(heap_dump_on="oom")
try:
    neurogc.{call}
except RuntimeError as error:
    assert {expected!r} in str(error), error
else:
    raise SystemExit("no error")
with neurogc.request():
    pass
""")
    # Nor is half a file left.
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_that_of_the_crates():
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
    assert fallback("print(neurogc.__version__)") == version + "\n"


def test_percentiles_are_close():
    fallback("""
from neurogc._fallback import _Histogram
histogram = _Histogram()
for milliseconds in range(1, 1001):
    histogram.add(milliseconds / 1000)
for share, expected in ((0.5, 500), (0.95, 950), (0.99, 990), (0.999, 999)):
    assert abs(histogram.quantile_ms(share) - expected) <= expected * 0.07, (share, histogram.quantile_ms(share))
assert _Histogram().quantile_ms(0.5) == 0
""")

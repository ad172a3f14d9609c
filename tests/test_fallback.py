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
assert status["policy"] == "observe"
assert len(status["degraded"]) == 1 and "the extension module" in status["degraded"][0]
neurogc.uninstall()
assert not gc.callbacks
""", "-W", "error")


def test_the_report_has_every_field_of_the_real_one():
    """The names are read from the definition of the report, so that they cannot drift apart."""
    source = (ROOT / "crates" / "wire" / "src" / "status.rs").read_text()
    structs = dict(re.findall(r"pub struct (\w+) \{\n(.*?)\n\}", source, re.DOTALL))

    def check(struct, value, where):
        fields = dict(re.findall(r"^    pub (\w+): ([^,]+),", structs[struct], re.MULTILINE))
        assert set(value) == set(fields), where
        for name, kind in fields.items():
            if kind in structs:
                check(kind, value[name], f"{where}.{name}")
            elif kind.startswith("Vec"):
                assert isinstance(value[name], list), name
            elif kind == "String":
                assert isinstance(value[name], str), name
            elif kind.startswith("Option"):
                assert value[name] is None or isinstance(value[name], int), name
            else:
                assert isinstance(value[name], float if kind == "f64" else int), (name, kind)

    import json

    report = json.loads(fallback("import json; neurogc.install(); print(json.dumps(neurogc.status()))"))
    check("Status", report, "status")


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
        ("policy='every:100'", "not in this version yet"),
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

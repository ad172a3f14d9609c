"""What `neurogc run` puts first on PYTHONPATH: any program starts as it would have started, and is observed."""

import os
import subprocess
import sys
import textwrap
import zipapp
from pathlib import Path

import pytest
from observed import ROOT, environment, python, run, start

OBSERVED = "import neurogc; assert neurogc.status()['pid'] == __import__('os').getpid(); print('observed')"


def unobserved(*words, cwd=None, stdin=None, **env):
    """The same command without the agent."""
    own = environment()
    own = {name: value for name, value in own.items() if not name.startswith(("NEUROGC_", "PYTHONPATH"))}
    own.update({name: str(value) for name, value in env.items()})
    words = [str(word) for word in words]
    return subprocess.run(words, env=own, cwd=cwd, stdin=stdin, capture_output=True, text=True, timeout=60)


def same_with_and_without(*words, **options):
    """Runs a command both ways and expects the same outcome, which is returned."""
    without = unobserved(*words, **options)
    observed = run(*words, **options)
    expected = (without.returncode, without.stdout, without.stderr)
    assert (observed.returncode, observed.stdout, observed.stderr) == expected
    return without


def test_a_command_line_program_is_observed():
    assert python(OBSERVED) == "observed\n"


def test_a_script_a_module_standard_input_and_a_zipapp_are_observed(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(OBSERVED)
    zipapp.create_archive(tmp_path / "package", tmp_path / "app.pyz")
    script = tmp_path / "package" / "__main__.py"
    for words in ([script], ["-m", "package"], [tmp_path / "app.pyz"], [tmp_path / "package"]):
        done = run(sys.executable, *words, cwd=tmp_path)
        assert (done.stdout, done.stderr, done.returncode) == ("observed\n", "", 0), words
    with open(script) as stdin:
        assert run(sys.executable, "-", stdin=stdin).stdout == "observed\n"


def test_the_path_and_the_modules_look_as_without_us():
    code = "import sys; print(sys.path, sys.argv, sys.flags, __name__, sorted(vars()))"
    assert same_with_and_without(sys.executable, "-c", code, "argument").returncode == 0


@pytest.mark.parametrize("options", [["-W", "error"], ["-X", "dev"], ["-W", "error", "-X", "dev", "-bb"], ["-O"], ["-u"]])
def test_strict_interpreters_have_no_complaint(options):
    assert python("import asyncio, gc; asyncio.run(asyncio.sleep(0)); gc.collect(); " + OBSERVED, *options) == "observed\n"


def said_in_the_program(done):
    """What stands on stderr, without what `neurogc run` says about the command line before the program starts."""
    of_run = ("keeps Python from loading the agent", "is not a Python program")
    return "".join(line for line in done.stderr.splitlines(True) if not any(words in line for words in of_run))


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"]])
def test_isolated_interpreters_run_unobserved_and_silent(options):
    done = run(sys.executable, *options, "-c", "import sys; assert 'neurogc' not in sys.modules; print('ran')")
    assert (done.returncode, done.stdout, said_in_the_program(done)) == (0, "ran\n", "")


def test_children_are_observed_and_isolated_children_are_not():
    assert python(f"""
import subprocess, sys
child = subprocess.run([sys.executable, "-c", {OBSERVED!r}], capture_output=True, text=True)
assert (child.stdout, child.stderr, child.returncode) == ("observed\\n", "", 0), child
alone = subprocess.run([sys.executable, "-I", "-c", "import neurogc"], capture_output=True, text=True)
assert "No module named 'neurogc'" in alone.stderr, alone
print("done")
""") == "done\n"


def test_the_sitecustomize_of_the_program_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = __file__")
    code = """
import sys, sitecustomize
print(sys.mine, sitecustomize.__file__, sys.modules["sitecustomize"] is sitecustomize, sitecustomize.__spec__.name)
"""
    done = same_with_and_without(sys.executable, "-c", code, PYTHONPATH=tmp_path)
    assert str(tmp_path) in done.stdout


@pytest.mark.parametrize("body", ["1 / 0", "import missing_module", "raise ImportError('no', name='other')",
                                  "raise SystemExit(3)", "syntax error here"])
def test_a_sitecustomize_that_fails_fails_as_it_would_have(tmp_path, body):
    (tmp_path / "sitecustomize.py").write_text(body)
    without = unobserved(sys.executable, "-c", "print('ran')", PYTHONPATH=tmp_path)
    observed = run(sys.executable, "-c", "print('ran')", PYTHONPATH=tmp_path)
    assert (observed.returncode, observed.stdout) == (without.returncode, without.stdout)
    assert observed.stderr.splitlines()[-1:] == without.stderr.splitlines()[-1:]


@pytest.mark.needs_agent
@pytest.mark.parametrize(
    ("assignment", "hint"), [("NEUROGC_POLICY=obsrve", "Did you mean observe?"), ("NEUROGC_STAL_MS=1", "Did you mean stall_ms")]
)
def test_a_typo_in_the_environment_is_told_and_the_program_is_observed_with_the_default(assignment, hint):
    code = "import neurogc; status = neurogc.status(); print(status['policy_set'], status['degraded'])"
    # The process got its environment after `neurogc run` had looked at it, so only the report tells.
    done = run("/bin/sh", "-c", assignment + ' exec "$@"', "sh", sys.executable, "-c", code)
    assert done.returncode == 0 and done.stdout.startswith("auto [") and hint in done.stdout, done
    # The same without `neurogc run`, where no command has read the environment before.
    own = {**os.environ, **dict([assignment.split("=")]), "PYTHONPATH": str(ROOT / "python")}
    program = [sys.executable, "-c", "import neurogc; neurogc.install(); print('ran')"]
    done = subprocess.run(program, env=own, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith("neurogc: ") and hint in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_children_do_not_repeat_what_the_first_process_said():
    code = """
import os, subprocess, sys
os.environ["NEUROGC_POLICY"] = "nonsense"
subprocess.run([sys.executable, "-c", "print('ran')"], check=True)
"""
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_a_broken_package_is_said_in_one_line_and_the_program_runs(tmp_path):
    words = ["/bin/sh", "-c", f'NEUROGC_HOME={tmp_path} exec "$@"', "sh", sys.executable, "-c", "print('ran')"]
    done = run(*words)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    said = said_in_the_program(done)
    assert said.startswith("neurogc: this program runs unobserved: ")
    assert said.count("\n") == 1


def test_an_interpreter_with_its_own_neurogc_uses_that(tmp_path):
    (tmp_path / "neurogc").mkdir()
    (tmp_path / "neurogc" / "__init__.py").write_text("def install(): print('own version')")
    done = run(sys.executable, "-c", "print('ran')", PYTHONPATH=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "own version\nran\n", "")


def test_a_folder_that_only_has_the_name_is_no_package(tmp_path):
    (tmp_path / "neurogc").mkdir()
    assert python(OBSERVED, PYTHONPATH=tmp_path) == "observed\n"


def test_what_lies_beside_our_package_stays_out_of_reach():
    assert "False" in python("""
import importlib.util, os, neurogc, sys
home = os.path.dirname(os.path.abspath(neurogc.__path__[0]))
print(home in [os.path.abspath(entry) for entry in sys.path])
""")


@pytest.mark.once
@pytest.mark.parametrize("version", ["2.7", "3.6", "3.9"])
def test_an_interpreter_that_is_too_old_runs_and_says_so(version):
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    done = run(found[0], "-c", "import sys; sys.stdout.write('ran')")
    assert (done.returncode, done.stdout) == (0, "ran")
    assert f"Python {version} is too old" in done.stderr.splitlines()[-1]


def test_installing_by_hand_under_the_command_changes_nothing():
    python("""
import neurogc
before = neurogc.status()["uptime_s"]
neurogc.install()
assert neurogc.status()["uptime_s"] >= before
neurogc.uninstall()
neurogc.uninstall()
try:
    neurogc.status()
except RuntimeError as error:
    assert "neurogc.install()" in str(error)
neurogc.install(stall_ms=7, adapters=True, trace=None)
assert neurogc.status()["policy"] == "gap"
""")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("policy='obsrve'", "Did you mean observe?"),
        ("stal_ms=1", "Did you mean stall_ms"),
        ("stall_ms='soon'", "it must be a number from 1 to 60000"),
        ("stall_ms=[1]", "it must be a text, a number, a path or true/false"),
        ("adapters='perhaps'", "it must be true or false"),
    ],
)
def test_a_wrong_setting_by_hand_is_an_error_that_says_what_would_be_right(call, expected):
    python(f"""
import neurogc
neurogc.uninstall()
try:
    neurogc.install({call})
except ValueError as error:
    assert {expected!r} in str(error), error
else:
    raise SystemExit("no error")
""")


def test_an_interactive_session_starts(tmp_path):
    process = start(sys.executable, "-i", "-q", stdin=subprocess.PIPE)
    out, err = process.communicate(textwrap.dedent(OBSERVED) + "\n", timeout=60)
    assert (process.returncode, out.strip()) == (0, "observed")
    assert set(err.replace(">>>", "").split()) == set()


def test_the_environment_of_this_test_run_does_not_leak():
    assert not [name for name in environment() if name.startswith("NEUROGC_") and name != "NEUROGC_HOME"]
    assert os.environ.get("NEUROGC_ROOT_PID") is None

"""What makes daily use pleasant: settings of a project, completions, manual pages, colours, one line where to look."""

import os
import pty
import socket
import subprocess
import sys

import pytest
from observed import binary, environment, neurogc, run

pytestmark = [pytest.mark.once, pytest.mark.needs_agent]

SETTINGS = (
    "import neurogc, os; print(neurogc.status()['policy'], os.environ.get('NEUROGC_STALL_MS'), "
    "os.path.isabs(os.environ.get('NEUROGC_TRACE', '')))"
)


def project(folder, text):
    """A project file."""
    (folder / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1"\n\n' + text)


def on_a_terminal(*words, **env):
    """What a command writes to a terminal, standard output and standard error together."""
    ours, theirs = pty.openpty()
    own = {name: value for name, value in environment().items() if name != "NO_COLOR"} | {"TERM": "xterm", **env}
    process = subprocess.Popen([binary(), *words], stdin=theirs, stdout=theirs, stderr=theirs, env=own)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert process.wait(60) == 0, said
    return said.decode()


def test_a_project_file_gives_settings_to_the_program(tmp_path):
    project(tmp_path, '[tool.neurogc]\npolicy = "observe"\nstall_ms = 20\ntrace = "run.ngct"\n')
    done = run(sys.executable, "-c", SETTINGS, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("observe 20 True\n", "")
    assert (tmp_path / "run.ngct").exists()


def test_the_environment_and_neurogc_toml_are_stronger_than_the_project_file(tmp_path):
    project(tmp_path, '[tool.neurogc]\npolicy = "observe"\nstall_ms = 20\n')
    (tmp_path / "neurogc.toml").write_text('policy = "cpython"\n')
    done = run(sys.executable, "-c", SETTINGS, cwd=tmp_path, NEUROGC_STALL_MS="30")
    assert (done.stdout, done.stderr) == ("cpython 30 False\n", "")


def test_a_mistake_in_a_project_file_is_told_and_the_program_runs(tmp_path):
    project(tmp_path, '[tool.neurogc]\npolici = "observe"\n')
    done = run(sys.executable, "-c", "print('ran')", cwd=tmp_path)
    assert done.stdout == "ran\n" and "pyproject.toml" in done.stderr and "Did you mean policy?" in done.stderr


def a_name_and_its_addresses():
    """A name of this machine that is not `localhost`, which needs no lookup."""
    for name in (socket.gethostname(), "localhost.", "ip6-localhost"):
        try:
            return name, {entry[4][0] for entry in socket.getaddrinfo(name, 7, type=socket.SOCK_STREAM)}
        except OSError:
            continue
    return pytest.skip("no name but localhost is known here")


def test_the_name_of_a_hub_in_the_environment_is_looked_up():
    code = "import os; print(os.environ['NEUROGC_HUB'])"
    name, addresses = a_name_and_its_addresses()
    done = run(sys.executable, "-c", code, NEUROGC_HUB=f"http://{name}:7", NEUROGC_HUB_TOKEN="x" * 16)
    shown = [f"http://[{address}]:7" if ":" in address else f"http://{address}:7" for address in addresses]
    assert done.stdout.strip() in shown, done


def test_the_name_of_a_hub_that_is_not_known_is_told():
    code = "import os; print(os.environ['NEUROGC_HUB'])"
    done = run(sys.executable, "-c", code, NEUROGC_HUB="http://no-such-host.invalid:7")
    assert done.stdout == "http://no-such-host.invalid:7\n" and "IP address" in done.stderr, done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions_know_the_verbs(shell):
    text = neurogc("completions", shell)
    assert "collect" in text and "policy" in text


def test_bash_accepts_its_completions():
    text = neurogc("completions", "bash")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_every_verb_has_a_manual_page(tmp_path):
    neurogc("man", "--to", tmp_path)
    pages = {page.stem for page in tmp_path.glob("*.1")}
    assert {"neurogc", "neurogc-run", "neurogc-heap-dump", "neurogc-memory-sites", "neurogc-trace-show"} <= pages
    assert ".TH neurogc-run 1" in (tmp_path / "neurogc-run.1").read_text()
    assert "there is no verb nothing" in neurogc("man", "nothing", expect=2)


def test_colours_are_for_terminals_and_can_be_refused():
    assert "\x1b[" in on_a_terminal("doctor")
    assert "\x1b[" not in on_a_terminal("doctor", NO_COLOR="1")


def test_run_says_where_to_look_on_a_terminal_only():
    said = on_a_terminal("run", "--", sys.executable, "-c", "print('ran')")
    assert "neurogc status" in said and "ran" in said and said.count("neurogc: ") == 1
    assert run(sys.executable, "-c", "print('ran')").stderr == ""

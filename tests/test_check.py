"""`neurogc check`: an extension with one bug of each kind, under Valgrind and AddressSanitizer."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from observed import APPS, binary, environment

pytestmark = [pytest.mark.twice]

HEADERS = Path(sysconfig.get_path("include")) / "Python.h"
PROGRAM = """
import sys
import faulty

def run(name):
    for _ in range(3):
        getattr(faulty, name)()

for name in sys.argv[1:]:
    run(name)
"""


def extension(folder, *options):
    """Builds the extension and a program that calls it."""
    if binary() is None:
        pytest.skip("the command is not built")
    if shutil.which("cc") is None or not HEADERS.exists():
        pytest.skip("there is no C compiler, or no headers of this interpreter")
    words = ["cc", "-g", "-O0", "-shared", "-fPIC", f"-I{HEADERS.parent}", *options, APPS / "faulty.c", "-o", folder / "faulty.so"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the extension cannot be built: {done.stderr[-200:]}")
    program = folder / "bugs.py"
    program.write_text(PROGRAM)
    return program


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed: sudo apt install valgrind")
    # An interpreter with a dynamic linker of its own, without symbols, is not for Valgrind.
    if subprocess.run(["valgrind", "-q", sys.executable, "-I", "-c", "pass"], capture_output=True, timeout=120).returncode != 0:
        pytest.skip("valgrind cannot run this interpreter")
    return extension(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    program = extension(tmp_path_factory.mktemp("sanitized"), "-fsanitize=address")
    done = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True)
    library = done.stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("the compiler has no libasan")
    env = environment(LD_PRELOAD=library, ASAN_OPTIONS="detect_leaks=0")
    if subprocess.run([sys.executable, "-I", "-c", "pass"], env=env, capture_output=True).returncode != 0:
        pytest.skip("libasan cannot be loaded into this interpreter")
    return program


def check(program, *names, options=(), **env):
    words = [binary(), "check", *options, "--", sys.executable, program, *names]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240, env=environment(**env))


def line_of(text):
    """The number of the line of C that holds a text."""
    return 1 + next(number for number, line in enumerate((APPS / "faulty.c").read_text().splitlines()) if text in line)


BUGS = {
    "overflow": ("write_outside", 80, "block[80] = 1"),
    "use_after_free": ("use_after_free", 48, "sink = block[3]"),
    "double_free": ("double_free", 32, "free(again)"),
    "uninitialised": ("uninitialised", None, "PyBool_FromLong"),
    "leak": ("leak", None, "malloc(1234)"),
    "leak_object": ("leak", None, "PyBytes_FromStringAndSize"),
}


def judge(bug, name, python_line):
    kind, size, text = BUGS[name]
    assert bug["kind"] == kind
    if size is not None:
        assert bug["block"]["size"] == size and bug["block"]["allocated"]
    own = [frame for frame in bug["stack"] if frame["function"] == name]
    assert own and own[0]["line"] == line_of(text)
    if python_line:
        assert [(Path(frame["file"]).name, frame["line"]) for frame in bug["python"]] == [("bugs.py", 7), ("bugs.py", 10)]


def test_valgrind_finds_each_bug_once_with_its_python_line(plain):
    done = check(plain, *BUGS, "fine", options=["--json"])
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert [bug["kind"] for bug in report["bugs"]].count("leak") == 2, report
    assert len(report["bugs"]) == len(BUGS)
    for name in BUGS:
        [bug] = [bug for bug in report["bugs"] if any(frame["function"] == name for frame in bug["stack"])]
        judge(bug, name, python_line=bug["kind"] != "leak")
        assert bug["count"] == 3
    leak = next(bug for bug in report["bugs"] if any(frame["function"] == "leak" for frame in bug["stack"]))
    assert leak["bytes"] == 3 * 1234


def test_valgrind_says_nothing_of_what_is_fine_and_passes_the_exit_code_on(plain):
    done = check(plain, "fine")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Valgrind: no bugs found"), done.stdout + done.stderr
    failing = check(plain, "no_such_function")
    assert failing.returncode == 1 and "AttributeError" in failing.stderr and "no bugs found" in failing.stdout


def test_a_report_is_told_in_words(plain):
    done = check(plain, "overflow")
    assert done.returncode == 1
    assert "1. overflow() writes 1 byte directly behind a block of 80 bytes (3 times)" in done.stdout
    assert "bugs.py:7 in run\n" in done.stdout


def test_children_are_checked(plain):
    outer = plain.with_name("outer.py")
    outer.write_text("import subprocess, sys\nsubprocess.run([sys.executable, sys.argv[1], 'double_free'])\n")
    done = check(outer, plain, options=["--json"])
    assert [bug["kind"] for bug in json.loads(done.stdout)["bugs"]] == ["double_free"], done.stderr


@pytest.mark.parametrize("name", ["overflow", "use_after_free", "double_free", "leak", "leak_object"])
def test_address_sanitizer_finds_it(sanitized, name):
    done = check(sanitized, name, options=["--asan", "--json"])
    report = json.loads(done.stdout)
    if name.startswith("leak") and any("ptrace" in remark for remark in report["remarks"]):
        pytest.skip("LeakSanitizer may not trace its process here")
    assert done.returncode == 1, done.stderr
    [bug] = report["bugs"]
    judge(bug, name, python_line=bug["kind"] != "leak")


def test_address_sanitizer_says_nothing_of_what_is_fine(sanitized):
    done = check(sanitized, "fine", options=["--asan"])
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "AddressSanitizer: no bugs found"), done.stdout + done.stderr


@pytest.mark.once
@pytest.mark.parametrize("options, advice", [([], "apt install valgrind"), (["--asan"], "apt install gcc")])
def test_a_missing_tool_is_named_with_how_to_install_it(tmp_path, options, advice):
    if binary() is None:
        pytest.skip("the command is not built")
    (tmp_path / "python3").symlink_to(sys.executable)
    words = [binary(), "check", *options, "--", "python3", "-c", "pass"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(PATH=tmp_path, CC=""))
    assert done.returncode == 1 and advice in done.stderr

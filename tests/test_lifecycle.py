"""How processes come, multiply and go under the agent: forks, spawns, daemons, sub-interpreters, exits."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from observed import APPS, ask, eventually, python, run, socket_path, start
from service import Service

needs_agent = pytest.mark.needs_agent


# Forks


def test_a_forked_child_has_an_agent_of_its_own():
    python("""
import os, sys, neurogc
with neurogc.request():
    pass
child = os.fork()
if child == 0:
    try:
        status = neurogc.status()
        assert status["pid"] == os.getpid()
        assert status["requests"]["count"] == 0, status["requests"]
        with neurogc.request():
            assert neurogc.status()["requests"]["in_flight"] == 1
        assert neurogc.status()["requests"]["count"] == 1
        os._exit(0)
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
status = neurogc.status()
assert (status["pid"], status["requests"]["count"]) == (os.getpid(), 1), status["requests"]
""")


def test_a_request_that_is_open_at_a_fork_belongs_to_the_parent():
    python("""
import os, neurogc
with neurogc.request():
    child = os.fork()
    if child == 0:
        os._exit(neurogc.status()["requests"]["in_flight"])
    assert os.waitpid(child, 0)[1] == 0
    assert neurogc.status()["requests"]["in_flight"] == 1
if os.fork() == 0:
    os._exit(0)
os.wait()
status = neurogc.status()["requests"]
assert (status["count"], status["in_flight"]) == (1, 0), status
""")


@pytest.mark.timing
@pytest.mark.parametrize("action", ["error", "always"])
def test_forking_gives_no_warning(action):
    # CPython 3.13.0 to 3.13.9 and 3.14.0 count the threads only after the hooks of the parent have run (gh-137109),
    # and swallow the warning where it is an error, so both ways of looking are needed.
    python("""
import os, threading
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
""", "-W", action)


def test_forks_within_forks_and_from_threads():
    assert python("""
import os, threading, neurogc
def generation(left):
    child = os.fork()
    if child == 0:
        code = 0 if neurogc.status()["pid"] == os.getpid() else 1
        if left:
            code |= generation(left - 1)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
codes = []
threads = [threading.Thread(target=lambda: codes.append(generation(3))) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(codes)
""", "-W", "ignore") == "[0, 0, 0, 0]\n"


def test_the_program_has_no_children_and_no_files_that_it_did_not_make():
    python("""
import os, subprocess, sys
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise SystemExit("there is a child process that this program did not start")
code = "import os; print(sorted(int(name) for name in os.listdir('/proc/self/fd')))"
child = subprocess.run([sys.executable, "-I", "-c", code], stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, close_fds=False)
assert child.stdout == "[0, 1, 2, 3]\\n", child
""")


@pytest.mark.timing
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_are_observed(tmp_path, method):
    script = tmp_path / "program.py"
    script.write_text(f"""
import multiprocessing, os

def work(number):
    import neurogc
    with neurogc.request():
        pass
    status = neurogc.status()
    return status["pid"] == os.getpid() and status["requests"]["count"] >= 1, number * 2

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        assert pool.map(work, range(8)) == [(True, number * 2) for number in range(8)]
    process = context.Process(target=work, args=(1,))
    process.start()
    process.join()
    assert process.exitcode == 0
    print("done")
""")
    done = run(sys.executable, "-W", "error", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@needs_agent
def test_every_process_of_a_tree_has_its_socket():
    process = start(sys.executable, "-c", """
import os, sys
pids = [os.getpid()]
for _ in range(2):
    child = os.fork()
    if child == 0:
        sys.stdin.readline()
        os._exit(0)
    pids.append(child)
print(*pids, flush=True)
sys.stdin.readline()
for _ in range(2): os.wait()
""", stdin=subprocess.PIPE)
    pids = [int(word) for word in process.stdout.readline().split()]
    try:
        for pid in pids:
            assert eventually(lambda pid=pid: ask(pid), what=f"an answer of {pid}")["pid"] == pid
            assert socket_path(pid).stat().st_mode & 0o777 == 0o600
            assert socket_path(pid).parent.stat().st_mode & 0o777 == 0o700
    finally:
        _, err = process.communicate("\n" * 4, timeout=20)
    assert (process.returncode, err) == (0, "")
    assert not socket_path(pids[0]).exists()


@needs_agent
@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ("gunicorn", ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "-w", "2", "--log-level", "warning", "plain_wsgi:app"]),
        ("gunicorn", ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "-w", "2", "--preload", "plain_wsgi:app"]),
        ("uvicorn", ["-m", "uvicorn", "--port", "{port}", "--workers", "2", "--log-level", "warning", "plain_asgi:app"]),
        ("granian", ["-m", "granian", "--port", "{port}", "--workers", "2", "--interface", "asgi", "plain_asgi:app"]),
    ],
    ids=["gunicorn", "gunicorn --preload", "uvicorn --workers", "granian --workers"],
)
def test_each_worker_counts_its_own_requests(needs, words):
    pytest.importorskip(needs)
    service = Service([sys.executable, *words])
    try:
        service.wait_until_it_answers()
        workers = set()

        def both_answered():
            workers.add(service.figures()["pid"])
            return len(workers) == 2

        eventually(both_answered, what="both workers")

        def counted():
            # An end is booked by another thread of the worker, so on a busy machine a report may lack the latest one.
            return sum(ask(pid)["requests"]["count"] for pid in workers) == service.answered

        eventually(counted, what="all requests so far in both workers")
        for _ in range(20):
            service.get("/ping")
        eventually(counted, what="20 more requests in both workers")
        # After its last fork the parent's agent starts its threads again, which takes a while on a busy machine.
        parent = eventually(lambda: ask(service.process.pid), what="an answer of the parent")
        assert parent["requests"]["count"] == 0
        assert workers <= {child["pid"] for child in parent["children"]}
    finally:
        service.stop()
    if needs == "gunicorn":
        # Other servers end their workers by a signal, so the agent in the worker cannot remove its socket.
        assert not any(socket_path(pid).exists() for pid in workers)


# Other ways to become a process


def test_a_program_that_replaces_itself_is_observed_again():
    code = "import os, neurogc; assert neurogc.status()['pid'] == os.getpid(); print(os.getpid())"
    out = python(f"""
import os, sys
print(os.getpid(), flush=True)
os.execv(sys.executable, [sys.executable, "-c", {code!r}])
""")
    first, second = out.split()
    assert first == second
    assert not socket_path(int(first)).exists()


DAEMON = """
import gc, os, socket, sys, time
folder = sys.argv[1]
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 1024)
# Everything from here on gets numbers that the agent may have had.
files = [os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT) for number in range(24)]
server = socket.socket(socket.AF_UNIX)
server.bind(folder + "/early")
server.listen(64)
os.rename(folder + "/early", folder + "/socket")
for file in files:
    os.write(file, b"begin\\n")
import neurogc
until = time.monotonic() + 1.5
server.settimeout(0.05)
served = 0
while time.monotonic() < until or served < 20:
    with neurogc.request():
        gc.collect(0)
    try:
        client, _ = server.accept()
    except TimeoutError:
        continue
    with client:
        client.sendall(b"daemon")
    served += 1
for file in files:
    os.write(file, b"end\\n")
    os.close(file)
os.rename(folder + "/socket", folder + "/done")
os._exit(0)
"""


def test_a_daemon_that_closes_every_descriptor_keeps_its_files_to_itself(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    done = run(sys.executable, "-W", "ignore", "-c", DAEMON, files,
               NEUROGC_TRACE=tmp_path / "trace.ngct", NEUROGC_SAMPLE_MS="100")
    assert (done.returncode, done.stderr) == (0, "")
    eventually((files / "socket").exists, what="the daemon")
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(files / "socket"))
            assert client.recv(100) == b"daemon"
    eventually((files / "done").exists, what="the end of the daemon")
    for number in range(24):
        assert (files / str(number)).read_bytes() == b"begin\nend\n"


SUBINTERPRETERS = '''
import sys
try:
    from concurrent import interpreters
    create = interpreters.create
    run = lambda interpreter, code: interpreter.exec(code)
except ImportError:
    try:
        import _interpreters as low
    except ImportError:
        import _xxsubinterpreters as low
    create = low.create
    def run(interpreter, code):
        problem = low.run_string(interpreter, code)
        assert problem is None, problem
for _ in range(3):
    run(create(), """if True:
        import gc, json, sys
        gc.collect()
        neurogc = sys.modules.get("neurogc")
        assert neurogc is None or not neurogc._native.agent.installed(), "observed"
    """)
import gc, neurogc
gc.collect()
assert neurogc.status()["gc"]["full"]["count"] >= 1
print("done")
'''


def test_sub_interpreters_run_unobserved_and_silent():
    assert python(SUBINTERPRETERS) == "done\n"


# The end of a process


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("import sys; sys.exit(7)", 7),
        ("import os; os._exit(8)", 8),
        ("import sys, threading; threading.Thread(target=sys.exit, args=(9,)).start()", 0),
        ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", 0),
        ("import threading, time; threading.Thread(target=time.sleep, args=(0.1,)).start()", 0),
        ("import asyncio; asyncio.run(asyncio.sleep(0.01))", 0),
        ("import atexit, neurogc; atexit.register(neurogc.status)", 0),
        ("import atexit, neurogc; atexit.register(neurogc.uninstall)", 0),
        ("import neurogc; mark = neurogc.request(); mark.__enter__()", 0),
        ("import neurogc; mark = neurogc._native.Mark(); import sys; sys.keep = mark", 0),
        ("import gc\nclass A:\n  def __del__(self): gc.collect()\na = A(); a.a = a", 0),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_an_exit_has_the_code_of_the_program_and_is_clean(code, expected):
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (expected, "", "")


def test_an_error_of_the_program_looks_the_same():
    done = run(sys.executable, "-c", "1 / 0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "neurogc" not in done.stderr


def test_an_interrupt_looks_the_same():
    # Short sleeps, because a signal that comes just before a sleep does not cut it short.
    # Who was started in the background of a shell inherits that interrupts are ignored.
    interruptible = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{interruptible}\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"
    process = start(sys.executable, "-c", code)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert "neurogc" not in err


def test_signals_reach_the_thread_that_waits_for_them():
    python("""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for _ in range(50):
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1
caught = []
signal.signal(signal.SIGUSR2, lambda *_: caught.append(1))
for count in range(50):
    os.kill(os.getpid(), signal.SIGUSR2)
    assert len(caught) == count + 1
""")


@pytest.mark.timing
def test_exits_are_prompt():
    began = time.monotonic()
    for _ in range(5):
        python("pass")
    assert time.monotonic() - began < 10


@needs_agent
def test_a_clean_exit_leaves_no_socket():
    pid = int(python("import os; print(os.getpid())"))
    assert not socket_path(pid).exists()


def test_a_program_may_install_and_uninstall_again_and_again():
    python("""
import gc, neurogc
for _ in range(10):
    neurogc.install()
    gc.collect()
    neurogc.uninstall()
assert not gc.callbacks
neurogc.install()
gc.collect()
assert neurogc.status()["gc"]["full"]["count"] == 1
""")


def test_collections_are_counted_by_generation_and_place():
    python("""
import gc, neurogc
gc.disable()
before = neurogc.status()["gc"]
gc.collect(0); gc.collect(1); gc.collect()
with neurogc.request():
    gc.collect()
after = neurogc.status()["gc"]
grown = {name: after[name]["count"] - before[name]["count"] for name in ("young", "middle", "full", "in_request", "in_gap")}
assert grown == {"young": 1, "middle": 1, "full": 2, "in_request": 1, "in_gap": 3}, grown
assert after["full"]["max_ms"] > 0
""")


def test_requests_per_second_are_measured():
    python("""
import time, neurogc
deadline = time.monotonic() + 10
while not neurogc.status()["requests"]["rps"] > 0:
    assert time.monotonic() < deadline
    with neurogc.request():
        time.sleep(0.01)
""")


def test_the_apps_of_these_tests_are_there():
    assert {path.stem for path in Path(APPS).glob("*.py")} >= {"plain_asgi", "plain_wsgi", "flask_app"}

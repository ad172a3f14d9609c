"""What once hurt a program or its figures, and what almost did: each test is named for what broke."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from observed import ask, eventually, python, run, socket_path, start

pytestmark = pytest.mark.needs_agent


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


@pytest.mark.timing
def test_forks_while_the_agent_is_held_up_left_its_threads_there_each_time():
    process = start(sys.executable, "-W", "ignore", "-c", """
import os, sys, time, neurogc
print(os.getpid(), flush=True)
sys.stdin.readline()
began = time.monotonic()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
print(len(os.listdir("/proc/self/task")), time.monotonic() - began, flush=True)
sys.stdin.readline()
""", stdin=subprocess.PIPE)
    pid = int(process.stdout.readline())
    eventually(lambda: ask(pid), what="an answer")
    tasks = Path(f"/proc/{pid}/task")
    uplink = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == "neurogc-uplink\n")
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    # As if a disk or a huge process held it up: this one thread stands still.
    assert ptrace(PTRACE_SEIZE, uplink, None, None) == 0, os.strerror(ctypes.get_errno())
    assert ptrace(PTRACE_INTERRUPT, uplink, None, None) == 0
    eventually(lambda: "t (tracing stop)" in (tasks / str(uplink) / "status").read_text(), what="the thread's stop")
    process.stdin.write("\n")
    process.stdin.flush()
    threads, took = process.stdout.readline().split()
    assert ptrace(PTRACE_DETACH, uplink, None, None) == 0
    # One fork waits for it, and the others know better.
    assert int(threads) <= 3 and float(took) < 0.5
    assert eventually(lambda: ask(pid), what="an answer after that")["threads"] == 3
    _, err = process.communicate("\n", timeout=20)
    assert (process.returncode, err) == (0, "")


@pytest.mark.once
@pytest.mark.timing
def test_a_question_in_drips_held_up_the_others():
    process = start(sys.executable, "-c", "import os; print(os.getpid(), flush=True); input()", stdin=subprocess.PIPE)
    pid = int(process.stdout.readline())
    eventually(lambda: ask(pid), what="an answer")
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(socket_path(pid)))
        slow.sendall(b"\x00\x08\x00\x00")
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < began + 10:
                slow.sendall(b" ")
                time.sleep(0.005)
    assert time.monotonic() - began < 5
    process.communicate("\n", timeout=20)


def test_network_traffic_began_again_from_zero_at_every_fork():
    python("""
import os, socket, time, neurogc
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
neurogc.status()
# The agent's thread reads what it counts from.
time.sleep(0.5)
for _ in range(20):
    client.sendall(b"x" * 10_000)
    left = 10_000
    while left:
        left -= len(peer.recv(left))
before = neurogc.status()["net"]
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
after = neurogc.status()["net"]
assert 200_000 < before["recv_bytes"] <= after["recv_bytes"], (before, after)
""")


@pytest.mark.timing
def test_quick_questions_gave_a_processor_share_of_thousands_of_percent():
    python("""
import os, time, neurogc
for _ in range(200):
    until = time.perf_counter() + 0.001
    while time.perf_counter() < until:
        pass
    percent = neurogc.status()["cpu"]["percent"]
    assert 0 <= percent <= 105 * os.cpu_count(), percent
""")


@pytest.mark.once
def test_a_second_recorder_emptied_the_trace_of_the_first(tmp_path):
    trace = tmp_path / "trace.ngt"
    first = start(sys.executable, "-c", "print('ready', flush=True); input()", stdin=subprocess.PIPE, NEUROGC_TRACE=trace)
    assert first.stdout.readline() == "ready\n"
    eventually(lambda: trace.stat().st_size > 0, what="the first trace")
    second = run(sys.executable, "-c", "pass", NEUROGC_TRACE=trace)
    assert (second.returncode, second.stderr) == (0, "")
    assert trace.read_bytes().startswith(b"NGCTRACE")
    first.communicate("\n", timeout=20)
    assert trace.read_bytes().startswith(b"NGCTRACE")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.once
def test_a_trace_into_a_pipe_held_up_every_fork_and_the_exit(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    out = python("import neurogc; print(neurogc.status()['degraded'])", NEUROGC_TRACE=pipe)
    assert "it is not a regular file" in out


def test_a_trace_into_the_programs_output_wrote_over_it(tmp_path):
    out = tmp_path / "out"
    with out.open("w") as file:
        file.write("before\n")
        file.flush()
        environment = {**os.environ, "NEUROGC_TRACE": "/dev/stdout"}
        code = "import os, neurogc; neurogc.install(); os.write(1, b'after\\n'); neurogc.status()"
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        subprocess.run([sys.executable, "-c", code], stdout=file, env=environment, check=True)
    assert out.read_text() == "before\nafter\n"


@pytest.mark.once
def test_a_live_socket_of_another_container_was_removed():
    # No process has this number here, as if its owner lived in another pid namespace with the same /tmp.
    python("pass")
    path = socket_path(4_294_967_290)
    with socket.socket(socket.AF_UNIX) as listener:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen()
        try:
            python("import neurogc; neurogc.status()")
            assert path.exists()
        finally:
            path.unlink(missing_ok=True)


def test_agents_that_threads_installed_at_once_all_went_on():
    python("""
import os, threading, time, neurogc
def install(number):
    for round in range(5):
        neurogc.install(stall_ms=5 + number + 10 * round)
threads = [threading.Thread(target=install, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
# A thread that was joined may still be ending.
deadline = time.monotonic() + 5
while neurogc.status()["threads"] != 3 and time.monotonic() < deadline:
    time.sleep(0.01)
assert neurogc.status()["threads"] == 3, os.listdir("/proc/self/task")
neurogc.uninstall()
while len(os.listdir("/proc/self/task")) != 1 and time.monotonic() < deadline:
    time.sleep(0.01)
assert len(os.listdir("/proc/self/task")) == 1
""")


def test_a_fork_while_the_interpreter_ends_started_threads_again():
    done = run(sys.executable, "-W", "ignore", "-c", """
import os, sys
class Late:
    def __del__(self, os=os, list=list, len=len, print=print):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        print(len(os.listdir("/proc/self/task")), flush=True)
sys.late = Late()
""")
    # From 3.12 on the interpreter refuses to fork by then.
    assert (done.returncode, done.stdout.strip() in ("", "1"), done.stderr) == (0, True, ""), done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_server_that_gave_up_root_could_not_be_asked_any_more():
    process = start(sys.executable, "-c", """
import os
os.setgid(65534)
os.setuid(65534)
print(os.getpid(), flush=True)
input()
""", stdin=subprocess.PIPE)
    pid = int(process.stdout.readline())
    path = f"/tmp/neurogc-65534/{pid}.sock"
    eventually(lambda: os.path.exists(path), what="a socket of the new user")
    process.communicate("\n", timeout=20)
    assert process.returncode == 0
    assert not os.path.exists(path)
    socket_path(pid).unlink(missing_ok=True)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_standard_descriptors_that_are_closed_stay_the_programs(tmp_path, closed):
    report = tmp_path / "report"
    words = [sys.executable, "-c", f"""
import os, gc, neurogc
neurogc.install(trace={str(tmp_path / "trace.ngt")!r})
[gc.collect() for _ in range(20)]
neurogc.status()
opened = [os.open("/dev/null", os.O_RDWR) for _ in range(6)]
with open({str(report)!r}, "w") as file:
    file.write(str({list(closed)!r} == opened[:{len(closed)}]))
"""]
    script = "exec " + " ".join(f"{number}>&-" for number in closed) + '; exec "$@"'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(["/bin/sh", "-c", script, "sh", *words], env=environment, check=False, timeout=30)
    assert report.read_text() == "True"


def test_a_status_may_be_asked_for_anywhere():
    python("""
import gc, json, os, signal, sys, threading, neurogc
asked = []
def ask(*_):
    asked.append(neurogc.status()["pid"])
class Dying:
    __del__ = ask
gc.callbacks.append(lambda phase, info: ask())
signal.signal(signal.SIGUSR1, ask)
Dying()
gc.collect()
os.kill(os.getpid(), signal.SIGUSR1)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert set(asked) == {os.getpid()} and len(asked) >= 12, asked
""")


def test_a_second_install_left_the_program_unobserved_that_had_emptied_the_callbacks():
    python("""
import gc, neurogc
gc.callbacks.clear()
neurogc.install()
before = neurogc.status()["gc"]["full"]["count"]
gc.collect()
assert neurogc.status()["gc"]["full"]["count"] == before + 1
""")


@pytest.mark.timing
def test_a_subprocess_left_a_dead_socket_and_an_empty_trace(tmp_path):
    out = python("""
import os, subprocess, time
child = subprocess.Popen(["sleep", "60"], preexec_fn=os.setsid)
time.sleep(0.3)
print(child.pid)
child.kill()
child.wait()
""", "-W", "ignore", NEUROGC_TRACE=tmp_path / "trace.ngt")
    assert not socket_path(int(out)).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["trace.ngt"]


def test_a_program_without_memory_was_ended_by_a_thread_of_ours():
    python("""
import os, resource, neurogc
neurogc.uninstall()
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for spare in (0, 1, 2, 4, 8, 16, 32, 64, 96):
    resource.setrlimit(resource.RLIMIT_AS, (size + (spare << 20), resource.RLIM_INFINITY))
    try:
        neurogc.install(stall_ms=7)
        neurogc.status()
    except MemoryError:
        pass
    neurogc.uninstall()
""")


def test_a_program_that_runs_out_of_memory_goes_on():
    process = start(sys.executable, "-c", """
import os, resource, time, neurogc
neurogc.install(sample_ms=100)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (40 << 20), resource.RLIM_INFINITY))
print(os.getpid(), flush=True)
until = time.monotonic() + 3
while time.monotonic() < until:
    held = []
    for part in (1 << 20, 1 << 14, 1 << 9, 1 << 6):
        try:
            while True:
                held.append(bytearray(part))
        except MemoryError:
            pass
    full = time.monotonic() + 0.3
    while time.monotonic() < full:
        pass
    del held
print("survived", flush=True)
""")
    pid = int(process.stdout.readline())
    while process.poll() is None:
        try:
            ask(pid)
        except (OSError, AssertionError):
            pass
        time.sleep(0.02)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "survived\n", "")


def test_no_more_threads_is_no_error():
    out = python("""
import json, os, resource, neurogc
neurogc.uninstall()
if os.geteuid() == 0:
    # Root has as many threads as it likes.
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
neurogc.install(stall_ms=7)
print(neurogc.status()["degraded"])
""")
    assert "did not start" in out


def test_what_the_agent_allocates_made_cpython_collect_in_a_thread_of_ours():
    # So near to the threshold that asking the event loop for a collection is enough to go beyond it.
    python("""
import asyncio, gc, threading, time, neurogc
threads, kept = set(), []
gc.callbacks.append(lambda phase, info: threads.add(threading.get_ident()))
threshold = neurogc._native.agent.originals["get_threshold"]
async def main():
    await asyncio.sleep(0.3)
    for turn in range(40):
        kept.clear()
        until = threshold()[0] - turn % 8
        while gc.get_count()[0] < until:
            kept.append([])
        await asyncio.sleep(0.03)
    assert neurogc.status()["conduct"]["orders"], "the policy gave orders"
    assert threads == {threading.get_ident()}, threads
    assert gc.get_count()[0] >= 0, gc.get_count()
asyncio.run(main())
""", NEUROGC_POLICY="gap")

"""Finalizers and weakref callbacks run in threads of the program, and no thread of ours is to be seen from Python.

What has to do with one thread only (a sqlite3 connection, a Tk interpreter, a Qt object, a lock that its holder may
take again) breaks when a collection runs in a thread that the program does not know.
"""

import json
import os
import shutil
import subprocess

import pytest
from observed import Running, ask, binary, eventually, neurogc, python, stock

pytestmark = [pytest.mark.needs_agent]

# Everything that the collector calls says in which thread it was, and which threads can be seen from there.
# `mine` are the program's threads.
WATCHED = """
import asyncio, collections, gc, json, sys, threading, time, weakref, neurogc
mine, ran, strangers, refs = {threading.get_ident()}, collections.Counter(), set(), {}

def register():
    mine.add(threading.get_ident())

def look(where):
    ran[where] += 1
    if threading.get_ident() not in mine:
        strangers.add(where)
    if not set(sys._current_frames()) <= mine:
        strangers.add("sys._current_frames() in " + where)

class Closing:
    def __init__(self):
        self.me = self
        number = len(refs)
        refs[number] = weakref.ref(self, lambda ref: look("weakref callback"))
    def __del__(self):
        look("__del__")

kept = []
def work():
    for _ in range(40):
        Closing()
    kept.extend([number] for number in range(40))
    look("the program")

def report(rounds):
    status = neurogc.status()
    known = [thread.name for thread in threading.enumerate() if thread.ident not in mine]
    print(json.dumps({
        "strangers": sorted(strangers), "known": known, "made": 40 * rounds, "ran": ran,
        "acting": status["conduct"]["acting"], "degraded": status["degraded"],
    }))
"""

ONE_THREAD = """
for _ in range(300):
    work()
    time.sleep(0.002)
report(300)
"""
LOOP = """
async def main():
    for _ in range(300):
        work()
        await asyncio.sleep(0.002)
"""
LOOP_IN_MAIN = LOOP + """
asyncio.run(main())
report(300)
"""
LOOP_IN_A_WORKER = LOOP + """
def worker():
    register()
    asyncio.run(main())
thread = threading.Thread(target=worker)
thread.start()
thread.join()
report(300)
"""
WORKERS = """
from concurrent.futures import ThreadPoolExecutor
all_are_known = threading.Barrier(4)
def begin():
    register()
    all_are_known.wait()
def request():
    with neurogc.request():
        work()
    time.sleep(0.004)
with ThreadPoolExecutor(4, initializer=begin) as pool:
    for _ in pool.map(lambda number: request(), range(300)):
        pass
report(300)
"""
# The loop that was made last is closed; the one before it goes on in the main thread.
TWO_LOOPS = LOOP + """
second_runs, closed = threading.Event(), threading.Event()
async def brief():
    second_runs.set()
    for _ in range(20):
        work()
        await asyncio.sleep(0.002)
def worker():
    register()
    asyncio.run(brief())
    closed.set()
async def both():
    thread = threading.Thread(target=worker)
    thread.start()
    while not closed.is_set():
        await asyncio.sleep(0.002)
    thread.join()
    mine.discard(thread.ident)
    ran.clear()
    await main()
asyncio.run(both())
report(300)
"""
# The same with the loop that goes on in a worker thread, and the main thread without one.
TWO_WORKERS = LOOP + """
first_runs, closed = threading.Event(), threading.Event()
async def first():
    first_runs.set()
    while not closed.is_set():
        await asyncio.sleep(0.002)
    ran.clear()
    await main()
async def brief():
    for _ in range(20):
        work()
        await asyncio.sleep(0.002)
def worker():
    register()
    asyncio.run(first())
def other():
    register()
    first_runs.wait()
    asyncio.run(brief())
threads = [threading.Thread(target=worker), threading.Thread(target=other)]
for thread in threads:
    thread.start()
threads[1].join()
closed.set()
threads[0].join()
report(300)
"""

PROGRAMS = {
    "one thread": ONE_THREAD,
    "event loop": LOOP_IN_MAIN,
    "event loop in a worker": LOOP_IN_A_WORKER,
    "worker threads": WORKERS,
    "two loops, the last one closed": TWO_LOOPS,
    "two loops in workers, the last one closed": TWO_WORKERS,
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_finalizers_run_in_threads_of_the_program(code):
    with Running(WATCHED + code, policy="auto") as program:
        seen = json.loads(program.ends())
    assert seen["strangers"] == [] and seen["known"] == [], seen
    assert seen["acting"] and seen["degraded"] == [], seen
    # The program asked for no collection. The policy ordered them, and early enough that garbage did not pile up.
    least = 0.6 * seen["made"]
    assert seen["ran"]["__del__"] >= least and seen["ran"]["weakref callback"] >= least, seen


# What a snapshot finds is freed in the right thread, too, when a command from outside has asked for the snapshot.
@pytest.mark.skipif(not binary(), reason="the command has not been built")
@pytest.mark.parametrize("how", ["young", "full", "snapshot", "auto"])
@pytest.mark.parametrize("loop", [False, True], ids=["no event loop", "event loop"])
def test_a_collection_asked_for_from_outside_runs_in_a_thread_of_the_program(how, loop):
    code = WATCHED + f"""
told, known = [], threading.Event()
def reading():
    register()
    known.set()
    told.append(sys.stdin.readline())
threading.Thread(target=reading, daemon=True).start()
known.wait()
gc.disable()
work()
print("ready", flush=True)
async def main():
    while not told:
        await asyncio.sleep(0.002)
if {loop}:
    asyncio.run(main())
while not told:
    time.sleep(0.002)
report(1)
"""
    with Running(code, policy="observe") as program:
        assert program.line() == "ready"
        eventually(lambda: ask(program.pid), what="the agent")
        assert neurogc("collect", program.pid, "--how", how, "--json", timeout=10)["found"] >= 40
        program.say("end")
        seen = json.loads(program.ends())
    assert seen["strangers"] == [] and seen["known"] == [] and seen["ran"]["__del__"] == 40, seen


def test_a_connection_is_closed_by_its_finalizer():
    closed, made, errors = json.loads(python("""
import json, sqlite3, sys, time
errors, kept, closed = [], [], 0
sys.unraisablehook = lambda error: errors.append(repr(error.exc_value))
class Store:
    def __init__(self):
        self.me, self.connection = self, sqlite3.connect(":memory:")
    def __del__(self):
        global closed
        self.connection.execute("select 1")
        self.connection.close()
        closed += 1
for _ in range(200):
    Store()
    kept.extend([[]] + [number] for number in range(200))
    time.sleep(0.003)
print(json.dumps([closed, 200, errors]))
""", NEUROGC_POLICY="auto"))
    assert errors == [] and closed >= 0.6 * made, (closed, made, errors[:3])


# A program with one thread that holds its own lock all the time. A finalizer may take it again there, and nowhere else.
UNDER_A_LOCK = """
import gc, json, threading, time
lock, kept = threading.RLock(), []
class Resource:
    alive = 0
    def __init__(self):
        self.me, self.pad = self, bytearray(20_000)
        Resource.alive += 1
    def __del__(self):
        with lock:
            Resource.alive -= 1
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
with lock:
    before = resident()
    for _ in range(400):
        for _ in range(50):
            Resource()
        kept.extend([[]] + [number] for number in range(20))
        time.sleep(0.002)
    alive, grown = Resource.alive, resident() - before
    gc.collect()
    print(json.dumps({"alive": alive, "after": Resource.alive, "grown": grown}))
"""


def test_a_finalizer_may_take_the_lock_that_the_program_holds():
    expected = json.loads(stock(UNDER_A_LOCK))
    with Running(UNDER_A_LOCK, policy="auto") as program:
        seen = json.loads(program.ends())
    assert seen["after"] == 0, seen
    assert seen["grown"] <= 1.25 * expected["grown"] + (16 << 20), (seen, expected)


# Ends of such a program, with the lock still held: a fork, whose child collects, a process, and the end itself.
ENDINGS = {
    "fork": """
    child = os.fork()
    if child == 0:
        Resource()
        os._exit(0 if gc.collect() > 0 and Resource.alive == 0 else 1)
    print("child", os.waitpid(child, 0)[1])
""",
    "subprocess": """
    print("process", subprocess.run(["true"]).returncode)
""",
    "exit": """
    Resource()
    sys.exit(3)
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_under_its_own_lock_forks_and_ends_as_without_us(ending):
    code = "import os, subprocess, sys\n" + UNDER_A_LOCK.replace("range(400)", "range(60)") + ENDINGS[ending]
    # What is alive before the collection, and memory, depend on when was collected.
    code = code.replace('{"alive": alive, "after": Resource.alive, "grown": grown}', "Resource.alive")
    expect = 3 if ending == "exit" else 0
    with Running(code, policy="auto", within=15) as program:
        assert program.ends(expect) == stock(code, expect=expect)


def test_a_collection_after_so_many_requests_runs_in_a_thread_of_the_program():
    with Running(WATCHED + WORKERS, policy="every:10") as program:
        seen = json.loads(program.ends())
    assert seen["strangers"] == [] and seen["known"] == [], seen


# Toolkits with objects that belong to one thread


@pytest.fixture
def display():
    """A display for windows: the one that there is, or one of our own."""
    if os.environ.get("DISPLAY"):
        yield os.environ["DISPLAY"]
        return
    if not shutil.which("Xvfb"):
        pytest.skip("no display, and Xvfb is not installed (sudo apt install xvfb)")
    read, write = os.pipe()
    words = ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    server = subprocess.Popen(words, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with open(read) as told:
            number = told.readline().strip()
        if not number:
            pytest.skip("Xvfb is installed and does not work")
        yield f":{number}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("policy", ["auto", "gap"])
def test_a_tk_interpreter_goes_where_it_was_made(display, policy):
    pytest.importorskip("tkinter", reason="this interpreter has no Tk")
    assert python("""
import tkinter, time
kept = []
def dialog():
    root = tkinter.Tk()
    root.withdraw()
    root.me, root.variable = [root], tkinter.StringVar(root, "x")
    root.update()
    root.destroy()
for _ in range(4):
    dialog()
    for _ in range(30):
        kept.extend([[]] + [number] for number in range(400))
        time.sleep(0.01)
print("end")
""", NEUROGC_POLICY=policy, DISPLAY=display) == "end\n"


@pytest.mark.parametrize("policy", ["auto", "gap"])
def test_qt_objects_go_where_they_were_made(policy):
    pytest.importorskip("PySide6.QtGui", reason="PySide6 cannot be imported by this interpreter", exc_type=ImportError)
    code = WATCHED + """
from PySide6 import QtCore, QtGui
app = QtGui.QGuiApplication([])
class Ticking(QtCore.QObject):
    def __init__(self):
        super().__init__()
        self.me, self.timer = [self], QtCore.QTimer(self)
        self.timer.setInterval(5)
        self.timer.timeout.connect(self.tick)
        self.timer.start()
    def tick(self):
        pass
    def __del__(self):
        look("__del__ of an object of Qt")
rounds = 0
def step():
    global rounds
    rounds += 1
    [Ticking() for _ in range(5)]
    work()
timer = QtCore.QTimer()
timer.timeout.connect(step)
timer.start(10)
QtCore.QTimer.singleShot(2000, app.quit)
app.exec()
report(rounds)
"""
    with Running(code, policy=policy, QT_QPA_PLATFORM="offscreen") as program:
        seen = json.loads(program.ends())
    assert seen["strangers"] == [] and seen["ran"]["__del__ of an object of Qt"] > 0, seen


@pytest.mark.parametrize("policy", ["auto", "gap"])
def test_greenlets_have_one_hub(policy):
    pytest.importorskip("gevent", reason="gevent is not installed for this interpreter")
    code = "from gevent import monkey; monkey.patch_all()\n" + WATCHED + """
import gevent
from gevent import hub
get_ident = monkey.get_original("_thread", "get_ident")
hubs, mine = set(), {get_ident()}
class Waiting:
    def __init__(self):
        self.me, self.timeout = self, gevent.Timeout.start_new(100)
    def __del__(self):
        hubs.add((get_ident(), id(hub.get_hub())))
        self.timeout.close()
def serve():
    for _ in range(150):
        with neurogc.request():
            [Waiting() for _ in range(20)]
        gevent.sleep(0.005)
gevent.joinall([gevent.spawn(serve) for _ in range(2)])
print(json.dumps([len(hubs), {ident for ident, _ in hubs} == mine]))
"""
    with Running(code, policy=policy) as program:
        assert json.loads(program.ends()) == [1, True]

"""A snapshot that is requested while another thread collects: no thread hangs, and every finalizer runs once.

The other collection lets go of the GIL in the middle, as any finalizer that does input or output makes it do.
"""

import pytest
from observed import Running, ask, binary, eventually, neurogc
from snapshots import PRELUDE

pytestmark = [pytest.mark.needs_agent, pytest.mark.race]
needs_command = pytest.mark.skipif(not binary(), reason="the command has not been built")

# `meet()` asks for snapshots in a thread until one was seen out: on a busy machine one may land before this thread has a
# processor. What is made by `slow(how)` then holds the next collection up until the snapshot has landed, and for some time
# after that. `ran` counts the finalizers of each object.
MEETING = PRELUDE + """
import collections, json
ran, made, refs = collections.Counter(), 0, {}

class Told:
    def __init__(self, slow=False):
        global made
        self.number, self.slow, self.me = made, slow, self
        made += 1
    def __del__(self):
        ran[self.number] += 1
        if self.slow:
            hold_up()

def hold_up():
    until = time.monotonic() + 0.2
    while time.monotonic() < until or walkers() and time.monotonic() < until + 3:
        time.sleep(0.01)

def called(number):
    ran[number] += 1
    hold_up()

def slow(how):
    global made
    if how == "__del__":
        Told(slow=True)
    else:
        node, number = cycle(), made
        made += 1
        refs[number] = weakref.ref(node, lambda ref: called(number))

def meet():
    met = threading.Event()
    def ask():
        while not met.is_set():
            found.append(neurogc.collect("snapshot"))
    asking = threading.Thread(target=ask)
    asking.start()
    until = time.monotonic() + 5
    while not walkers():
        assert asking.is_alive() and time.monotonic() < until, "no snapshot was launched"
        time.sleep(0.0005)
    met.set()
    return asking

found = []

def everything_ran_once():
    gc.collect()
    assert sorted(ran) == list(range(made)) and set(ran.values()) == {1}, (made, len(ran), ran.most_common(3))
"""

HOLDING = """
live = [[number] for number in range(200_000)]
gc.collect()
for _ in range(200):
    Told()
"""

WAYS = pytest.mark.parametrize("how", ["__del__", "weakref callback"])


@WAYS
@pytest.mark.parametrize("generation", [0, 2], ids=["young", "full"])
def test_a_snapshot_in_one_thread_and_a_collection_in_another(how, generation):
    code = MEETING + HOLDING + f"""
asking = meet()
slow({how!r})
gc.collect({generation})
asking.join()
everything_ran_once()
print(min(found))
"""
    with Running(code, policy="observe", within=10) as program:
        assert int(program.ends()) >= 0


@WAYS
def test_a_snapshot_in_one_thread_and_cpythons_own_collection_in_another(how):
    code = MEETING + HOLDING + f"""
asking = meet()
slow({how!r})
gc.enable()
before, kept = gc.get_stats()[0]["collections"], []
while gc.get_stats()[0]["collections"] == before:
    kept.append([])
asking.join()
everything_ran_once()
"""
    with Running(code, policy="observe", within=10) as program:
        program.ends()


def test_snapshots_in_several_threads_and_collections_between_them():
    code = MEETING + HOLDING + """
gc.enable()
stop = threading.Event()
def asking():
    while not stop.is_set():
        neurogc.collect("snapshot")
threads = [threading.Thread(target=asking) for _ in range(2)]
for thread in threads:
    thread.start()
class Brief(Told):
    def __del__(self):
        ran[self.number] += 1
        time.sleep(0.001)
until = time.monotonic() + 1
while time.monotonic() < until:
    for _ in range(20):
        Brief()
    gc.collect(0)
    time.sleep(0.001)
stop.set()
for thread in threads:
    thread.join()
everything_ran_once()
"""
    with Running(code, policy="observe", within=15) as program:
        program.ends()


# The main thread beats, and collects slowly each time a snapshot is out; a line on stdin ends it.
BEATING = MEETING + HOLDING + """
told, beats, met = [], 0, 0
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
def beat():
    global beats, met
    if beats == 0:
        print("ready", flush=True)
    beats += 1
    if walkers():
        met += 1
        slow(sys.argv[1])
        gc.collect(0)
LOOP
everything_ran_once()
# One beat may take as long as a snapshot, where it meets one.
print(beats > 3, met > 0)
"""
IN_MAIN = """
while not told:
    beat()
    time.sleep(0.001)
"""
BESIDE_A_LOOP = """
import asyncio
def beating():
    while not told:
        beat()
        time.sleep(0.001)
async def main():
    while not told:
        await asyncio.sleep(0.001)
worker = threading.Thread(target=beating)
worker.start()
asyncio.run(main())
worker.join()
"""


@needs_command
@WAYS
@pytest.mark.parametrize("policy", ["observe", "gap"])
@pytest.mark.parametrize("loop", [IN_MAIN, BESIDE_A_LOOP], ids=["no event loop", "event loop"])
def test_a_snapshot_asked_for_from_outside_and_a_collection_in_the_program(how, policy, loop):
    with Running(BEATING.replace("LOOP", loop), how, policy=policy, within=15) as program:
        assert program.line() == "ready"
        eventually(lambda: ask(program.pid), what="the agent")
        for _ in range(2):
            assert neurogc("collect", program.pid, "--how", "snapshot", "--json", timeout=6)["how"] == "snapshot"
        program.say("end")
        assert program.ends() == "True True\n"

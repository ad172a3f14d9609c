"""Where memory is short there is no snapshot: it is refused or called off and counted, and the program lives on.

No cgroup is made for this, which takes rights over the machine. A program gets a file system of its own instead, in
which its cgroup's files say what the test wrote.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from observed import command, environment
from snapshots import PRELUDE, snap
from test_snapshot_failures import AND_THE_NEXT, LARGE, SECCOMP

pytestmark = pytest.mark.needs_agent

# Mounts a folder over another one, visible to this command only, and then runs the rest of the command line.
COVERED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
PRIVATE = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c", COVERED, "sh"]

FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}

# `left` is what the cgroup leaves to its processes.
LIMITED = PRELUDE + """
LIMIT = 64 << 30
def leave(left):
    # Renamed into place: half a number must not be read.
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(LIMIT - left))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""


def own_folder(version):
    """The folder of this process's cgroup with the memory controller; nothing where there is none."""
    with open("/proc/self/cgroup") as file:
        lines = [line.strip().split(":", 2) for line in file]
    with open("/proc/self/mountinfo") as file:
        mounts = [[*line.split(" - ")[0].split()[3:5], *line.split(" - ")[1].split()] for line in file]
    for number, controllers, path in lines:
        if version == (2 if number == "0" else 1) and (number == "0" or "memory" in controllers.split(",")):
            for part, point, kind, _, options in mounts:
                wanted = kind == "cgroup2" if version == 2 else kind == "cgroup" and "memory" in options.split(",")
                if wanted:
                    return Path(point) / Path(path.removeprefix(part).lstrip("/"))
    return None


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def limited(request, tmp_path):
    """Runs code in a cgroup of 64 GB, as its files have it, that can say how much of that is left."""
    folder = own_folder(request.param)
    if folder is None:
        pytest.skip(f"no cgroups of version {request.param} are mounted here")
    limit, usage = FILES[request.param]
    (tmp_path / limit).write_text(f"{64 << 30}\n")
    (tmp_path / usage).write_text("0\n")
    tried = subprocess.run([*PRIVATE, tmp_path, folder, "cat", folder / usage], capture_output=True, text=True)
    if tried.stdout != "0\n":
        pytest.skip(f"no file systems of one's own can be had here: {tried.stderr.strip()}")

    def python(code, policy):
        words = [*PRIVATE, tmp_path, folder, *command(sys.executable, "-c", LIMITED + code, tmp_path / usage)]
        env = environment(NEUROGC_POLICY=policy)
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return python


def test_a_snapshot_that_is_asked_for_is_refused_near_the_limit(limited):
    limited(f"""
{LARGE}
leave(resident() // 4)
try:
    agent.snapshot_launch()
except RuntimeError as error:
    assert "memory is too short" in str(error), error
else:
    raise AssertionError("it was not refused")
assert agent.snapshot_look()[0] == "failed" and failed() == {{"no_memory": 1}}, failed()
assert neurogc.collect("snapshot") >= 2000, "a full collection takes its place"
told = neurogc.status()["gc"]["snapshot"]
assert (told["count"], told["failed"]) == (0, 2), told
leave(LIMIT)
{AND_THE_NEXT}
assert agent.snapshot_figures()["launched"] == 1
""", "observe")


@pytest.mark.timing
def test_a_flight_is_called_off_when_memory_runs_short(limited):
    limited(f"""
import signal
{LARGE}
agent.snapshot_launch()
[pid] = walkers()
# It would be over too soon.
os.kill(pid, signal.SIGSTOP)
leave(0)
began = time.monotonic()
# The policy takes note of the failure and forgets it.
while not failed() and time.monotonic() < began + 10:
    time.sleep(0.001)
assert failed() == {{"cancelled": 1}} and time.monotonic() - began < 1.5, (failed(), time.monotonic() - began)
assert len(live) == 600_000
leave(LIMIT)
{AND_THE_NEXT}
""", "gap")


# A heap that the policy would collect from a snapshot, with garbage in it that has grown old.
OLD = """
live = [[number] for number in range(600_000)]
old = [cycle() for _ in range(1000)]
gc.collect(0), gc.collect(1)
gone = weakref.ref(old[500])
SHORT
gc.enable()
del old
deadline = time.monotonic() + 60
while gone() is not None and time.monotonic() < deadline:
    # Work and gaps, so that there is something to collect.
    live += [[number] for number in range(1000)]
    time.sleep(0.02)
assert gone() is None, neurogc.status()["gc"]
while neurogc.status()["gc"]["snapshot"]["failed"] == 0 and time.monotonic() < deadline:
    live += [[number] for number in range(1000)]
    time.sleep(0.02)
status = neurogc.status()["gc"]
import json
print(json.dumps({"snapshot": status["snapshot"], "full": status["full"], "failed": failed()}))
"""


@pytest.mark.once
def test_the_policy_does_without_walks_of_everything_near_the_limit(limited):
    seen = json.loads(limited(OLD.replace("SHORT", "leave(resident() // 4)"), "gap"))
    # Walks of new objects need less.
    assert seen["snapshot"]["count"] == seen["snapshot"]["new_walks"], seen
    assert seen["snapshot"]["new_walks"] + seen["full"]["count"] >= 1 and seen["failed"].keys() == {"no_memory"}, seen


# What a kernel without overcommitment says to a clone, and what a limit on addresses says to the memory that it needs.
# Threads that run already are not refused anything.
REFUSED = SECCOMP + """
neurogc.uninstall()
refuse({CLONE: (errno.ENOMEM, CLONE_VM)})
neurogc.install()
"""
NO_ADDRESSES = """
import resource, sys
used = int(open("/proc/self/statm").read().split()[0]) * 4096
# The heap must still be able to grow until a cycle is due, which takes more objects from 3.13 on.
room = 12 << 20 if sys.version_info < (3, 13) else 34 << 20
resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
"""


@pytest.mark.twice
@pytest.mark.parametrize(
    ("short", "kind"), [(REFUSED, "clone"), (NO_ADDRESSES, "no_memory")], ids=["no clone", "no addresses"]
)
def test_the_policy_collects_plainly_where_there_is_no_memory_for_a_clone(short, kind):
    seen = json.loads(snap(OLD.replace("SHORT", short), NEUROGC_POLICY="gap", timeout=120))
    assert seen["snapshot"]["count"] == 0 and seen["full"]["count"] >= 1, seen
    assert seen["failed"].keys() == {kind}, seen

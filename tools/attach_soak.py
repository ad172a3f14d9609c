"""Attaches to programs of every kind and detaches, again and again; part `attach` of `make soak`.

    attach_soak.py PYTHON [--times 500] [--kinds sleep,busy] [--kill-every 5] [--add-to FILE] [--save]

Every so often another attaching command is killed in the middle. Each program checks its own work: one that died, gives a wrong
result or writes to stderr is a failure. So are an attach that did not run in time, and a stop of the main thread of more than
20 ms, as the command measures it. A long run can be made in parts: `--add-to FILE` adds up what the runs with this file found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from interpreters import ROOT

TARGETS = ROOT / "tests" / "apps" / "attach_targets.py"
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fast" / "neurogc"
KINDS = re.findall(r"^@kind\ndef (\w+)", TARGETS.read_text(), re.MULTILINE)
WAITS = {"sleep", "accept", "asyncio_idle", "lock"}
"""What ends with a signal."""

LONGEST_STOP_MS = 20
"""How long a main thread may be stopped at once."""

PATIENCE_S = 30
"""How long a program may take to come to it: one in native code that holds the GIL comes to it when that ends."""

LONGEST_KILL = 0.012
"""A command is killed within this time, in seconds: it needs about as long."""


@dataclass
class Outcome:
    """What happened to programs of one kind."""

    asked: int = 0
    ran: int = 0
    killed: int = 0
    late: int = 0
    left_pages: int = 0
    stops_ms: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def main() -> int:
    """Attaches, and prints one line for each kind."""
    parser = argparse.ArgumentParser(prog="attach_soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the interpreter of the programs")
    parser.add_argument("--times", type=int, default=500, help="attaches that are not killed, all kinds together")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--kill-every", type=int, default=5, help="one attach is killed after so many others, less one")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--add-to", type=Path, metavar="FILE", help="what earlier runs of this interpreter found, and this one")
    parser.add_argument("--save", action="store_true", help="also write bench/results/attach.json")
    options = parser.parse_args()
    kinds = [kind for kind in options.kinds.split(",") if can_run(options.python, kind)]
    chance = random.Random(options.seed)
    each = -(-options.times // len(kinds))
    outcomes = {}
    for kind in kinds:
        outcomes[kind] = attach_to(options.python, kind, each, options.kill_every, chance)
        print(line(kind, outcomes[kind]), flush=True)
    whole = together(list(outcomes.values()))
    print(line("all", whole), flush=True)
    if options.add_to:
        if options.add_to.exists():
            earlier = Outcome(**json.loads(options.add_to.read_text()))
            whole = together([earlier, whole])
            print(line("with earlier", whole), flush=True)
        options.add_to.write_text(json.dumps(vars(whole)))
    faults = [f"{kind}: {fault}" for kind, outcome in outcomes.items() for fault in outcome.faults]
    for fault in faults:
        print(f"attach: FAILED: {fault} (seed {options.seed})", flush=True)
    if options.save and not whole.faults:
        save(options.python, whole)
    return int(bool(whole.faults))


def can_run(python: str, kind: str) -> bool:
    """Whether the interpreter has what a program of this kind imports."""
    return kind != "numpy" or subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0


def attach_to(python: str, kind: str, times: int, kill_every: int, chance: random.Random) -> Outcome:
    """Attaches to one program so many times."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="neurogc-soak-") as folder:
        stop = Path(folder) / "stop"
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NEUROGC_"))}
        # A fork beside threads of the agent is what is tested; CPython warns of it on stderr.
        command = [python, "-W", "ignore::DeprecationWarning", str(TARGETS), kind, str(stop)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=env, text=True, **pipes) as target:
            target.stdout.readline()
            for turn in range(times):
                verb = None
                if kill_every and turn % kill_every == kill_every - 1:
                    verb = chance.choice(["attach", "attach", "detach"])
                    outcome.killed += killed(verb, target.pid, chance)
                one(target.pid, outcome, may_go=verb == "detach")
                if target.poll() is not None:
                    break
            stop.touch()
            if kind in WAITS:
                target.send_signal(signal.SIGTERM)
            try:
                out, err = target.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                target.kill()
                out, err = target.communicate()
                outcome.faults.append("it did not end")
        if (target.returncode, out, err) != (0, "OK\n", ""):
            outcome.faults.append(f"exit code {target.returncode}, {out.strip()!r}, {err.strip()[-300:]!r}")
    return outcome


def killed(verb: str, pid: int, chance: random.Random) -> int:
    """Begins to attach or detach and kills the command. 1 where that came in time."""
    with subprocess.Popen([COMMAND, verb, str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        time.sleep(chance.random() * LONGEST_KILL)
        command.kill()
        return int(command.wait() == -signal.SIGKILL)


def one(pid: int, outcome: Outcome, *, may_go: bool) -> None:
    """One attach, a look at the status, and the detach after it. `may_go`: a command to detach was killed before; what it asked
    for is done by the program itself, which may come to it only now."""
    patience = ("--timeout", str(PATIENCE_S))
    told = asked("attach", pid, *patience)
    for _ in range(2):
        if isinstance(told, dict) and not told["attached"]:
            # A command that was killed had come far enough.
            asked("detach", pid, *patience)
            told = asked("attach", pid, *patience)
    outcome.asked += 1
    if isinstance(told, dict) and not told["attached"]:
        told = "an agent was there each time"
    if isinstance(told, str):
        outcome.late += "did not come to it" in told
        outcome.faults.append(f"attach: {told}")
        return
    outcome.ran += 1
    count(told, outcome)
    status = asked("status", pid)
    if isinstance(status, str) and may_go and "has no agent" in status:
        one(pid, outcome, may_go=False)
        return
    if isinstance(status, str):
        outcome.faults.append(f"status: {status}")
    told = asked("detach", pid, *patience)
    if isinstance(told, str) and may_go and "has no agent" in told:
        return
    if isinstance(told, str):
        outcome.faults.append(f"detach: {told}")
    else:
        count(told, outcome)


def count(told: dict, outcome: Outcome) -> None:
    """Notes what a command tells."""
    if told["longest_stop_ms"] > LONGEST_STOP_MS:
        outcome.faults.append(f"stopped for {told['longest_stop_ms']:.1f} ms")
    outcome.stops_ms.append(told["longest_stop_ms"])
    outcome.took_ms.append(told["took_ms"])
    outcome.ways[told["way"]] += 1
    outcome.left_pages += told["left_page"]


def asked(verb: str, pid: int, *words: str) -> dict | str:
    """What a command tells, or its message where it fails."""
    done = subprocess.run([COMMAND, verb, str(pid), "--json", *words], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()


def together(outcomes: list[Outcome]) -> Outcome:
    """The sum of several kinds."""
    whole = Outcome()
    for outcome in outcomes:
        for name in ("asked", "ran", "killed", "late", "left_pages"):
            setattr(whole, name, getattr(whole, name) + getattr(outcome, name))
        whole.stops_ms += outcome.stops_ms
        whole.took_ms += outcome.took_ms
        whole.ways += Counter(outcome.ways)
        whole.faults += outcome.faults
    return whole


def quantiles(values: list[float]) -> tuple[float, float, float]:
    """The median, the 99th percentile and the largest."""
    if len(values) < 2:
        return (0.0, 0.0, 0.0)
    hundredths = statistics.quantiles(values, n=100, method="inclusive")
    return hundredths[49], hundredths[98], max(values)


def line(kind: str, outcome: Outcome) -> str:
    """One line of the report."""
    p50, p99, most = quantiles(outcome.stops_ms)
    took, slow, _ = quantiles(outcome.took_ms)
    ways = " ".join(f"{way} {times}" for way, times in outcome.ways.most_common())
    return (
        f"attach: {kind:14} {outcome.ran:4} of {outcome.asked} attaches ran, {outcome.killed} killed, {len(outcome.faults)} faults, "
        f"{outcome.late} too late, stopped {p50:.2f} ms (p99 {p99:.2f}, most {most:.2f}), "
        f"took {took:.0f} ms (p99 {slow:.0f}), pages left {outcome.left_pages}; {ways}"
    )


def save(python: str, whole: Outcome) -> None:
    """One row of the table in docs/attach.md."""
    sys.path.insert(0, str(ROOT / "bench"))
    import results

    version = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True)
    p50, p99, most = quantiles(whole.stops_ms)
    took, slow, _ = quantiles(whole.took_ms)
    cells = [version.stdout.strip(), f"{whole.ran} of {whole.asked}", str(whole.killed), str(whole.late)]
    cells += [f"{p50:.2f}", f"{p99:.2f}", f"{most:.2f}", f"{took:.0f}", f"{slow:.0f}", str(whole.left_pages)]
    columns = ["CPython", "attaches that ran", "others, killed in the middle", "too late", "stop p50 ms", "p99 ms", "longest ms"]
    columns += ["loaded within, p50 ms", "p99 ms ", "pages left"]
    measured = time.strftime("%Y-%m-%d", time.gmtime()) + f", {os.cpu_count()} cores"
    results.save("attach", "tools/attach_soak.py PYTHON --save", columns, [cells], keys=1, measured=measured)


if __name__ == "__main__":
    sys.exit(main())

"""What watching memory costs: looks, verdicts, readings of all memory and censuses, in a service whose memory grows.

    python bench/memory_cost.py [--seconds 45] [--python EXE]

The same program runs without the agent, with an agent that takes no census, and with one that does everything. The share of a core is that of the
agent's uplink thread, which does all of this, and of the clones that count; memory is the resident set at the end, less that without
the agent. The sampler of allocations is on in both, so the last row less the one before it is what censuses take, and the uplink's
share in it is an upper bound for everything: it answers clients and reads /proc besides.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python"

PROGRAM = """
import gc, json, os, resource, sys, time
mode, seconds = sys.argv[1], float(sys.argv[2])
if mode != "nothing":
    import neurogc
    neurogc.install(policy="observe", census_s=0 if mode == "no census" else 600)

class Row:
    def __init__(self, number):
        self.number, self.text = number, f"row {number}"

rows = [Row(number) for number in range(150_000)]
grown = []

def times():
    # Seconds of the uplink, by the scheduler's own count, and of clones that have ended.
    spent = 0
    for task in os.listdir("/proc/self/task"):
        if open(f"/proc/self/task/{task}/comm").read().strip() == "neurogc-uplink":
            spent += int(open(f"/proc/self/task/{task}/schedstat").read().split()[0])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent / 1e9, used.ru_utime + used.ru_stime

began, before = time.monotonic(), times()
while time.monotonic() - began < seconds:
    # 100 requests a second; each leaves a kilobyte behind.
    for number in range(300):
        Row(number)
    grown.append(bytes(1000))
    time.sleep(0.0095)
after, passed = times(), time.monotonic() - began
rss = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
said = {}
if mode != "nothing":
    status = neurogc.status()
    said = {"last census at": status["census"]["at_s"], "findings": [it["kind"] for it in status["findings"]]}
print(json.dumps({"uplink": (after[0] - before[0]) / passed, "clones": (after[1] - before[1]) / passed, "rss": rss, **said}))
"""


def run(python: str, mode: str, seconds: float) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")} | {"PYTHONPATH": str(HOME)}
    done = subprocess.run([python, "-c", PROGRAM, mode, str(seconds)], env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=45)
    options = parser.parse_args()
    print(f"{'agent':12} {'uplink':>9} {'clones':>9} {'RSS':>9}  beyond nothing")
    alone = None
    for mode in ("nothing", "no census", "everything"):
        # The program without the agent only gives the memory to compare with.
        seen = run(options.python, mode, options.seconds if alone else min(options.seconds, 10.0))
        # What the program has kept in more time is its own.
        rss = seen["rss"] - (0 if not alone else int((options.seconds - min(options.seconds, 10.0)) * 100 * 1033))
        alone = alone or rss
        print(f"{mode:12} {100 * seen['uplink']:7.3f} % {100 * seen['clones']:7.3f} % {seen['rss'] / 1e6:6.1f} MB  {(rss - alone) / 1e6:6.1f} MB"
              f"  {seen.get('last census at', '')} {seen.get('findings', '')}", flush=True)


if __name__ == "__main__":
    main()

"""What it costs to be observed: the figures of docs/benchmarks.md, measured as ratios and differences within one run.

    python bench/observe.py [--quick] [--save]        needs fastapi and uvicorn, and the built package (make build)

Each part switches between "with" and "without" again and again, so that a machine that grows slower or faster
disturbs both sides alike. Nothing here is a test: bars are printed beside the figures, not enforced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

import results  # noqa: E402
import workloads  # noqa: E402


def fresh(code: str, *, observed: bool = False) -> str:
    """Runs code in a new interpreter and gives what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(HERE)])
    start = "import neurogc; neurogc.install(policy='observe')\n" if observed else ""
    done = subprocess.run([sys.executable, "-c", start + code], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median and the bounds that it lies between with 95 % confidence (by order statistics)."""
    ordered = sorted(values)
    count = len(ordered)
    half = 0.98 * count**0.5
    low, high = max(0, int(count / 2 - half)), min(count - 1, int(count / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def cpu_work(rounds: int) -> dict:
    """CPU-bound programs: wall time with the agent divided by wall time without, in pairs within one process."""
    code = f"""
import json, time, workloads, neurogc
def timed(work, count):
    began = time.perf_counter()
    for _ in range(count):
        work()
    return time.perf_counter() - began
pairs = {{name: [] for name in workloads.ALL}}
counts = {{name: max(1, round(0.3 / (timed(work, 5) / 5))) for name, work in workloads.ALL.items()}}
for index in range({rounds}):
    for name, work in workloads.ALL.items():
        times = {{}}
        for observed in ((True, False) if index % 2 else (False, True)):
            neurogc.install(policy="observe") if observed else neurogc.uninstall()
            # The cost of starting is measured by itself.
            time.sleep(0.05)
            times[observed] = timed(work, counts[name])
        pairs[name].append(times[True] / times[False])
print(json.dumps(pairs))
"""
    pairs = json.loads(fresh(code))
    parts = {name: spread(ratios) for name, ratios in pairs.items()}
    everything = [ratio for ratios in pairs.values() for ratio in ratios]
    return {"bar": "≤ 1.01×", "unit": "× time", "value": spread(everything), "parts": parts}


def gc_event(rounds: int) -> dict:
    """One call of the collector's hook, of which there are two in each collection."""
    code = f"""
import gc, json, time, neurogc
neurogc.install(policy="observe")
hook = gc.callbacks[-1]
gc.collect(); gc.freeze(); gc.disable()
def collections(count=5000):
    collect = gc.collect
    began = time.perf_counter_ns()
    for _ in range(count):
        collect(0)
    return (time.perf_counter_ns() - began) / count
added = []
for _ in range({rounds}):
    gc.callbacks[:] = []
    without = collections()
    gc.callbacks[:] = [hook]
    added.append((collections() - without) / 2 / 1000)
    time.sleep(0.01)
print(json.dumps(added))
"""
    return {"bar": "≤ 1 µs", "unit": "µs an event", "value": spread(json.loads(fresh(code)))}


def requests(count: int) -> dict:
    """A FastAPI endpoint behind uvicorn: the same client asks both servers in turn."""
    servers = [workloads.Server(observed=observed) for observed in (False, True)]
    try:
        for server in servers:
            server.ask(500)
        latencies: list[list[float]] = [[], []]
        for index in range(count):
            for which in (0, 1) if index % 2 else (1, 0):
                latencies[which].append(servers[which].ask_once())
    finally:
        for server in servers:
            server.stop()
    without, with_agent = (statistics.median(each) * 1e6 for each in latencies)
    # The uncertainty of the difference, from twenty slices of the run.
    size = max(1, count // 20)
    slices = [
        1e6 * (statistics.median(latencies[1][at : at + size]) - statistics.median(latencies[0][at : at + size]))
        for at in range(0, count - size + 1, size)
    ]
    return {
        "bar": "≤ +10 µs",
        "unit": "µs at p50",
        "value": spread(slices),
        "parts": {"p50 without (µs)": [without] * 3, "p50 with (µs)": [with_agent] * 3},
    }


def idle(seconds: int) -> dict:
    """Processor time of a process that sleeps, all its threads together."""
    code = f"""
import glob, time
def used():
    return sum(int(open(path).read().split()[0]) for path in glob.glob("/proc/self/task/*/schedstat"))
time.sleep(2)
before, began = used(), time.monotonic()
time.sleep({seconds})
print((used() - before) / 1e7 / (time.monotonic() - began))
"""
    pairs = [(float(fresh(code, observed=True)), float(fresh(code))) for _ in range(3)]
    return {"bar": "≤ 0.3 %", "unit": "% of a core", "value": spread([with_ - without for with_, without in pairs])}


def memory(rounds: int) -> dict:
    """Resident memory that the agent adds to a small program, after it has run for a second and given a report."""
    rest = """
import time
time.sleep(1)
print(open("/proc/self/statm").read().split()[1])
"""
    report = "import json\nneurogc.status()\n"
    added = []
    for _ in range(rounds):
        without = int(fresh("import json" + rest))
        with_agent = int(fresh(report + rest, observed=True))
        added.append((with_agent - without) * os.sysconf("SC_PAGE_SIZE") / 2**20)
    return {"bar": "≤ 8 MB", "unit": "MB", "value": spread(added)}


def start_up(rounds: int) -> dict:
    """Import and install in a new interpreter."""
    code = """
import time
began = time.perf_counter()
import neurogc
neurogc.install(policy="observe")
print((time.perf_counter() - began) * 1000)
"""
    return {"bar": "≤ 20 ms", "unit": "ms", "value": spread([float(fresh(code)) for _ in range(rounds)])}


def main() -> None:
    """Measures everything and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--save", action="store_true", help="also write the table of docs/benchmarks.md")
    options = parser.parse_args()
    scale = 0.1 if options.quick else 1.0
    parts = {
        "CPU-bound work, six programs: time with ÷ time without": lambda: cpu_work(max(6, int(50 * scale))),
        "FastAPI behind uvicorn, added to the median request": lambda: requests(max(1000, int(20_000 * scale))),
        "an idle process, processor time of the agent": lambda: idle(max(3, int(30 * scale))),
        "memory of the agent": lambda: memory(max(3, int(15 * scale))),
        "import and install": lambda: start_up(max(5, int(40 * scale))),
        "one event of the collector (two in each collection)": lambda: gc_event(max(10, int(100 * scale))),
    }
    began = time.time()
    rows = []
    for name, measure in parts.items():
        print(f"measuring: {name} …", file=sys.stderr, flush=True)
        result = measure()
        rows.append([name, show(result["value"], result["unit"]), result["bar"]])
        rows += [[f"– {part}", show(value, ""), ""] for part, value in result.get("parts", {}).items()]
    print(f"\nCPython {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.release()}, "
          f"{time.strftime('%Y-%m-%d')}, {time.time() - began:.0f} s\n")
    for row in [COLUMNS, ["---"] * len(COLUMNS), *rows]:
        print(f"| {' | '.join(row)} |")
    if options.save:
        results.save("observe", "make bench", COLUMNS, rows, keys=1, measured=results.today())


COLUMNS = ["what", "measured (median, 95 % bounds)", "goal"]


def show(value: tuple[float, float, float], unit: str) -> str:
    """A figure with its bounds."""
    middle, low, high = value
    return f"{middle:.3f} {unit} ({low:.3f} – {high:.3f})".replace("  ", " ")


if __name__ == "__main__":
    main()

"""What a collector policy does to a service: latency, memory and throughput with a large live heap, side by side.

    python bench/serve.py [--quick] [--json FILE] [--policies off cpython gap threshold:50000,10,10 …]

Needs fastapi and uvicorn, and the built package (make build). Three parts: `serve` (bench/service.py under open-loop
Poisson load at a share of what it can do), `saturation` (the same, closed loop) and `acyclic` (programs without
cycles). `off` is the service with the collector disabled, the floor; `cpython` is CPython left alone; every other
name is a NeuroGC policy. Policies take turns in each round, in changing order and with the same arrivals, each on a
new service. Nothing here is a test: bars are printed beside the figures, not enforced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import service  # noqa: E402
from load import percentiles  # noqa: E402
from trial import HOME, PLAIN, Service, Setup, start, stop  # noqa: E402

ACYCLIC = ("floats", "documents", "texts", "generators", "tables")
FIGURES = ("p50", "p99", "p99.9", "max")


def say(text: str) -> None:
    """Progress, apart from the report."""
    print(text, file=sys.stderr, flush=True)


def spins_for(milliseconds: float, cores: set[int]) -> int:
    """How many steps of the service's computation take so long on its cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        service.spin(20_000, 1)
        times.append(time.perf_counter() - began)
    os.sched_setaffinity(0, all_cores)
    return max(1, round(20_000 * milliseconds / 1000 / statistics.median(times)))


def in_turn(policies: list[str], index: int) -> list[str]:
    """The policies, with another one first each time."""
    return policies[index % len(policies) :] + policies[: index % len(policies)]


def capacity(setup: Setup, records: int, seconds: float) -> dict:
    """What the service can do with the collector off, at the best of three tries, and how large its heap is.

    The best, because others on the machine can only take from it.
    """
    with Service(setup, "off", records) as floor:
        # Before the load, whose garbage stays when the collector is off.
        tracked = floor.tracked()
        tries = [floor.drive("closed", seconds, connections=4)["per_second"] for _ in range(3)]
        return {"tracked": tracked, "per_second": max(tries), "tries_per_second": tries}


def serve(setup: Setup, policies: list[str], records: int, loads: list[float], seconds: float, rounds: int,
          per_second: float) -> list[dict]:
    """Open-loop trials: a cell for each utilisation, with the trials of every policy."""
    cells = [{"load": load, "rate": load * per_second, "trials": {name: [] for name in policies}} for load in loads]
    for index in range(rounds):
        for at, cell in enumerate(cells):
            for policy in in_turn(policies, index + at):
                with Service(setup, policy, records) as running:
                    trial = running.drive("open", seconds, rate=cell["rate"], seed=1000 * index + at)
                trial |= percentiles(trial["latencies_ms"])
                cell["trials"][policy].append(trial)
                full = trial["collections"]["full"]
                say(f"  round {index + 1}/{rounds}, load {cell['load']:.0%}, {policy}: p50 {trial['p50']:.1f}, "
                    f"p99 {trial['p99']:.1f}, p99.9 {trial['p99.9']:.1f}, max {trial['max']:.0f} ms, "
                    f"{trial['peak_mb']:.0f} MB, {full['count']} full")
                for warning in warnings(trial):
                    say(f"    {warning}")
    return cells


def warnings(trial: dict) -> list[str]:
    """What makes a trial less than trustworthy."""
    found = []
    late = trial["lateness_ms"]
    if late["p99"] > 1.0:
        found.append(f"the generator did not keep up: sends were late by {late['p99']:.1f} ms at p99")
    if trial["core_wait"] > 0.02:
        found.append(f"the service waited for a core {trial['core_wait']:.1%} of the time: others use it too")
    if trial["unanswered"] or trial["errors"]:
        found.append(f"{trial['unanswered']} requests unanswered, {len(trial['errors'])} errors {trial['errors'][:1]}")
    return found


def saturation(setup: Setup, policies: list[str], records: int, seconds: float, rounds: int) -> dict:
    """Closed-loop trials: requests a second under each policy."""
    measured: dict[str, list[float]] = {name: [] for name in policies}
    for index in range(rounds):
        for policy in in_turn(policies, index):
            with Service(setup, policy, records) as running:
                measured[policy].append(running.drive("closed", seconds, connections=4)["per_second"])
            say(f"  round {index + 1}/{rounds}, saturated, {policy}: {measured[policy][-1]:.1f} requests/s")
    return measured


def acyclic(policy: str, settings: dict[str, str], pairs: int, cores: set[int]) -> dict:
    """Programs without cycles: time under a policy divided by time without, in pairs within one process."""
    code = f"""
import json, sys, time
sys.path[:0] = [{str(HOME.parent)!r}, {str(HERE)!r}]
import neurogc, workloads
def tables():
    rows = [{{"key": index, "values": [index, index + 1]}} for index in range(40000)]
    rows.sort(key=lambda row: -row["key"])
    return sum(row["values"][0] for row in rows)
works = {{name: getattr(workloads, name, tables) for name in {ACYCLIC!r}}}
def timed(work, count):
    began = time.perf_counter()
    for _ in range(count):
        work()
    return time.perf_counter() - began
counts = {{name: max(1, round(0.3 / (timed(work, 5) / 5))) for name, work in works.items()}}
found = {{name: [] for name in works}}
for index in range({pairs}):
    for name, work in works.items():
        times = {{}}
        for conducted in ((True, False) if index % 2 else (False, True)):
            neurogc.install(policy={policy!r}, **{settings!r}) if conducted else neurogc.uninstall()
            time.sleep(0.05)
            times[conducted] = timed(work, counts[name])
        found[name].append(times[True] / times[False])
print(json.dumps(found))
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    process = start(["-c", code], env, cores)
    try:
        output, _ = process.communicate(timeout=60 + pairs * len(ACYCLIC) * 3)
    except subprocess.TimeoutExpired:
        raise SystemExit("serve: the acyclic programs did not end") from None
    finally:
        stop(process)
    if process.returncode:
        raise SystemExit(f"serve: the acyclic programs failed under {policy}")
    return json.loads(output)


def confidence(values: list[float]) -> tuple[float, float, float]:
    """The median and the bounds that it lies between with 95 % confidence (by order statistics)."""
    ordered = sorted(values)
    half = 0.98 * len(ordered) ** 0.5
    low, high = max(0, int(len(ordered) / 2 - half)), min(len(ordered) - 1, int(len(ordered) / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def pooled(trials: list[dict]) -> dict[str, float]:
    """The figures of all rounds together: percentiles of all latencies, the highest peak."""
    together = percentiles([each for trial in trials for each in trial["latencies_ms"]])
    return together | {peak: max(trial[peak] for trial in trials) for peak in ("peak_mb", "all_mb")}


def ratio(cell: dict, figure: str, policy: str, base: str) -> tuple[float, float, float] | None:
    """A figure against another policy's: of all rounds together, and the lowest and highest round."""
    ours, theirs = cell["trials"].get(policy), cell["trials"].get(base)
    if not ours or not theirs:
        return None
    each = [one[figure] / other[figure] for one, other in zip(ours, theirs)]
    return pooled(ours)[figure] / pooled(theirs)[figure], min(each), max(each)


def shown(value: tuple[float, float, float] | None) -> str:
    """A ratio with its spread."""
    return "–" if value is None else f"{value[0]:.2f} ({value[1]:.2f}–{value[2]:.2f})"


def total(trials: list[dict], generation: str, what: str) -> float:
    """A sum over rounds of what the service's own callback counted."""
    return sum(trial["collections"][generation][what] for trial in trials)


def flights(trials: list[dict], span: float) -> str:
    """What snapshots cost, since the service started; copies as a share of the time under load."""
    told = [trial["agent_status"]["gc"] for trial in trials]
    clone = max(gc["snapshot"]["clone_max_ms"] for gc in told)
    slices = max(gc["reap"]["p99_ms"] for gc in told)
    copied = sum(gc["snapshot"]["copied_ms"] for gc in told) / 1000 / span
    return f"{sum(gc['snapshot']['count'] for gc in told)}: {clone:.1f}, {slices:.1f}, {copied:.1%}"


def too_short(cell: dict) -> bool:
    """Whether CPython, left alone, never got to what we want to avoid."""
    return "cpython" in cell["trials"] and not total(cell["trials"]["cpython"], "full", "count")


def cell_tables(cell: dict) -> None:
    """The two tables of one heap and utilisation: figures, and ratios to both baselines."""
    print("| policy | p50 | p99 | p99.9 | max (ms) | peak MB | with children | full, in request | longest full (ms) | GC share | "
          "busy | agent: full, in request / gap / forced | snapshots: clone, slices at p99 (ms), lost to copies |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for policy, trials in cell["trials"].items():
        figures = pooled(trials)
        span = sum(trial["until"] - trial["since"] for trial in trials)
        paused = sum(total(trials, generation, "total_ms") for generation in ("young", "middle", "full")) / 1000
        agent = snapshots = "–"
        if policy not in PLAIN:
            sums = {key: sum(trial["agent"][key] for trial in trials) for key in trials[0]["agent"]}
            agent = f"{sums['full']}, {sums['in_request']} / {sums['in_gap']} / {sums['forced']}"
            snapshots = flights(trials, span)
        latency = " | ".join(f"{figures[name]:.1f}" for name in FIGURES)
        longest = max(trial["collections"]["full"]["max_ms"] for trial in trials)
        print(f"| {policy} | {latency} | {figures['peak_mb']:.0f} | {figures['all_mb']:.0f} | {total(trials, 'full', 'count')}, "
              f"{total(trials, 'full', 'in_request')} | {longest:.0f} | {paused / span:.1%} | "
              f"{statistics.mean(trial['busy'] for trial in trials):.0%} | {agent} | {snapshots} |")
    print("\n| policy | p50 / off | p99 / off | p99.9 / off | p99 / cpython | p99.9 / cpython | peak / cpython | "
          "with children / cpython |\n|---|---|---|---|---|---|---|---|")
    columns = [("p50", "off"), ("p99", "off"), ("p99.9", "off"), ("p99", "cpython"), ("p99.9", "cpython"),
               ("peak_mb", "cpython"), ("all_mb", "cpython")]
    for policy in cell["trials"]:
        print(f"| {policy} | {' | '.join(shown(ratio(cell, figure, policy, base)) for figure, base in columns)} |")
    print()
    everything = [trial for trials in cell["trials"].values() for trial in trials]
    print(f"Sends were late by at most {max(trial['lateness_ms']['p99'] for trial in everything):.2f} ms at p99; the "
          f"service waited for a core at most {max(trial['core_wait'] for trial in everything):.1%} of the time.")
    if doubtful := sum(bool(warnings(trial)) for trial in everything):
        print(f"**Doubtful:** {doubtful} of {len(everything)} trials: the generator was late (over 1 ms), the service "
              "lacked a core (over 2 %), or requests failed. Measure again on a quiet machine.")
    if too_short(cell):
        print("**Too short:** CPython made no full collection here, so ratios to it say nothing (give more --seconds).")
    print()


def bars(results: dict) -> list[tuple[str, str, str]]:
    """What issue "Conduct" asks of `gap`, with what was measured."""
    rows = []
    for heap in results["heaps"]:
        size = f"{heap['records'] / 1e6:g} M"
        for cell in heap["cells"]:
            if "gap" not in cell["trials"]:
                continue
            where = f"{size}, {cell['load']:.0%}"
            trials = cell["trials"]["gap"]
            forced = sum(trial["agent"]["forced"] for trial in trials)
            rows += [
                (f"p99.9 vs. off ({where})", "≤ 1.15" if heap["records"] <= 300_000 else "≤ 1.3",
                 shown(ratio(cell, "p99.9", "gap", "off"))),
                (f"p99 vs. cpython ({where})", "≤ 0.25",
                 shown(ratio(cell, "p99", "gap", "cpython")) + (", but too short" if too_short(cell) else "")),
                (f"full collections in a request ({where})", "0 without a guard",
                 f"{total(trials, 'full', 'in_request')} (forced by a guard, any kind: {forced})"),
                (f"peak RSS vs. cpython ({where})", "≤ 1.25", shown(ratio(cell, "peak_mb", "gap", "cpython"))),
                (f"peak with children vs. cpython ({where})", "≤ 1.3", shown(ratio(cell, "all_mb", "gap", "cpython"))),
            ]
        rates = heap.get("saturation", {})
        if "gap" in rates and "cpython" in rates:
            rows.append((f"throughput vs. cpython ({size})", "≥ 1.0", shown(throughput(rates, "gap", "cpython"))))
    if "gap" in results["acyclic"]:
        ratios = [each for part in results["acyclic"]["gap"].values() for each in part]
        rows.append(("acyclic program vs. CPython", "≤ 1.01", "{:.3f} ({:.3f}–{:.3f})".format(*confidence(ratios))))
    return rows


def throughput(rates: dict[str, list[float]], policy: str, base: str) -> tuple[float, float, float]:
    """Requests a second against another policy's: of the medians, and the lowest and highest round."""
    each = [one / other for one, other in zip(rates[policy], rates[base])]
    return statistics.median(rates[policy]) / statistics.median(rates[base]), min(each), max(each)


def report(results: dict) -> None:
    """Everything as Markdown."""
    machine, setup = results["machine"], results["setup"]
    print(f"\nCPython {machine['python']}, {machine['cores']} cores, Linux {machine['kernel']}, {machine['date']}; "
          f"load average {machine['load_average']:.1f} at the start. FastAPI on uvicorn ({setup['loop']}), service on "
          f"cores {setup['service_cores']}, generator on {setup['load_cores']}. {setup['rounds']} rounds; percentiles "
          f"of all rounds together; ratios with the lowest and highest round in brackets. Full collections and GC "
          f"share as the service's own callback saw them; busy is processor time of the service; the agent's counts "
          f"include the warm-up, and those in requests and gaps collections of all generations.\n")
    for heap in results["heaps"]:
        print(f"## {heap['records'] / 1e6:g} M records: {heap['tracked'] / 1e6:.2f} M tracked objects, "
              f"{heap['per_second']:.0f} requests/s with the collector off\n")
        for cell in heap["cells"]:
            print(f"### {cell['load']:.0%} utilisation: {cell['rate']:.0f} requests/s, {heap['seconds']:g} s a round\n")
            cell_tables(cell)
        if rates := heap.get("saturation"):
            print("### Saturated\n\n| policy | requests/s (median) | lowest – highest | vs. cpython |\n"
                  "|---|---|---|---|")
            for policy, each in rates.items():
                against = shown(throughput(rates, policy, "cpython")) if "cpython" in rates else "–"
                print(f"| {policy} | {statistics.median(each):.1f} | {min(each):.1f} – {max(each):.1f} | {against} |")
            print()
    for policy, parts in results["acyclic"].items():
        print(f"## Programs without cycles: time under {policy} / time without NeuroGC\n\n"
              "| program | ratio (median, 95 % bounds) |\n|---|---|")
        everything = [each for ratios in parts.values() for each in ratios]
        for name, ratios in [("all", everything), *parts.items()]:
            print("| {} | {:.3f} ({:.3f} – {:.3f}) |".format(name, *confidence(ratios)))
        print()
    if rows := bars(results):
        print("## gap against its bars\n\n| what | bar | measured |\n|---|---|---|")
        for row in rows:
            print("| {} | {} | {} |".format(*row))


def numbers(kind: type):
    """An option that is a list with commas."""
    return lambda text: [kind(each) for each in text.split(",") if each]


def arguments() -> argparse.Namespace:
    """The options, `--quick` being other defaults for some of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute, for a look")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--parts", type=numbers(str), default=["serve", "saturation", "acyclic"])
    parser.add_argument("--policies", nargs="+", default=["off", "cpython", "gap"], metavar="P")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a NeuroGC setting")
    parser.add_argument("--records", type=numbers(int), help="heap sizes [300000,2000000]")
    parser.add_argument("--load", type=numbers(float), help="utilisations [0.5,0.7]")
    parser.add_argument("--seconds", type=numbers(float),
                        help="of a trial; one for all heaps, or one each [20,80]: CPython collects a large one seldom")
    parser.add_argument("--rounds", type=int, help="[3]")
    parser.add_argument("--pairs", type=int, help="of the acyclic part [50]")
    parser.add_argument("--work-ms", type=float, default=2.0, help="computation in a request [2]")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds between start and first request [1]")
    parser.add_argument("--warm-up", type=float, help="seconds of load before the figures count [3]")
    parser.add_argument("--loop", default="asyncio", choices=["asyncio", "uvloop"])
    parser.add_argument("--service-cores", type=numbers(int), help="[all; the generator has the last one, first]")
    options = parser.parse_args()
    usual = {"records": [300_000, 2_000_000], "load": [0.5, 0.7], "seconds": [20.0, 80.0], "rounds": 3, "pairs": 50,
             "warm_up": 3.0}
    if options.quick:
        usual = {"records": [300_000], "load": [0.5], "seconds": [6.0], "rounds": 1, "pairs": 3, "warm_up": 1.0}
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if len(options.seconds) < len(options.records):
        options.seconds += [options.seconds[-1]] * (len(options.records) - len(options.seconds))
    if unknown := set(options.parts) - {"serve", "saturation", "acyclic"}:
        parser.error(f"no such part: {', '.join(unknown)}")
    if not all("=" in each for each in options.set):
        parser.error("--set takes KEY=VALUE")
    return options


def main() -> None:
    """Measures everything and prints the report."""
    options = arguments()
    # Ended from outside is ended in order: the services end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    settings = dict(each.split("=", 1) for each in options.set)
    cores = sorted(os.sched_getaffinity(0))
    service_cores = set(options.service_cores or cores)
    setup = Setup(spins_for(options.work_ms, service_cores), options.loop, service_cores, {cores[-1]}, options.rest,
                  options.warm_up, settings)
    results: dict = {
        "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "kernel": platform.release(),
                    "date": time.strftime("%Y-%m-%d"), "load_average": os.getloadavg()[0]},
        "setup": {"spins": setup.spins, "loop": setup.loop, "service_cores": sorted(service_cores),
                  "load_cores": [cores[-1]], "rounds": options.rounds, "warm_up": setup.warm_up, "rest": setup.rest,
                  "settings": settings},
        "heaps": [],
        "acyclic": {},
    }
    began = time.monotonic()
    try:
        measure(options, setup, results)
    except KeyboardInterrupt:
        raise SystemExit("serve: interrupted") from None
    finally:
        # What was measured so far is not lost.
        if options.json:
            options.json.write_text(json.dumps(results, ensure_ascii=False) + "\n")
    report(results)
    say(f"{time.monotonic() - began:.0f} s")


def measure(options: argparse.Namespace, setup: Setup, results: dict) -> None:
    """Fills in the results, part by part."""
    for records, seconds in zip(options.records, options.seconds):
        if not {"serve", "saturation"} & set(options.parts):
            break
        say(f"{records} records: how many requests with the collector off …")
        heap = {"records": records, "seconds": seconds, "cells": []}
        heap |= capacity(setup, records, min(4.0, seconds / 3))
        results["heaps"].append(heap)
        say(f"  {heap['per_second']:.0f} requests/s, {heap['tracked']} tracked objects")
        if "serve" in options.parts:
            heap["cells"] = serve(setup, options.policies, records, options.load, seconds, options.rounds,
                                  heap["per_second"])
        if "saturation" in options.parts:
            others = [policy for policy in options.policies if policy != "off"]
            heap["saturation"] = saturation(setup, others, records, seconds, options.rounds)
    if "acyclic" in options.parts:
        for policy in options.policies:
            if policy not in PLAIN:
                say(f"programs without cycles, {policy} …")
                results["acyclic"][policy] = acyclic(policy, setup.settings, options.pairs, setup.service_cores)


if __name__ == "__main__":
    main()

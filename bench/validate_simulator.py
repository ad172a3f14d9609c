"""Is the simulator right? Measures scenarios, records their traces, plays those again and compares.

    python bench/validate_simulator.py attribution mixed-open llm-loop --runs 3 --python .venv/bin/python

Each scenario runs under CPython's own collector (`cpython`) and under `gap`, measured by `neurogc bench`. Every run is
recorded. Then `neurogc simulate` plays each trace under both policies: under the one that it was recorded with (is the
model right?) and under the other one (can it foretell?), the latter also `--with` a trace of the other policy from
another run. All contenders of a run met the same arrivals. Compared are p99 and peak RSS of the part that counts, run by
run; the bar is 15 %. Nothing else may run meanwhile: a run that was disturbed says so in the bench's own report, and is
left out here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import results  # noqa: E402

NEUROGC = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fast" / "neurogc"
POLICIES = ("cpython", "gap")
BAR = 0.15
# A figure, and its names in the bench's record and in the simulator's.
FIGURES = (("p50", "p50_ms", "p50_ms"), ("p99", "p99_ms", "p99_ms"), ("rss", "rss_peak", "peak_rss_mb"))
# What the bench leaves out at the start of an open loop, in seconds; of a program that loops it counts every step.
WARM_UP = 1.0
LOOPS = ("llm-loop", "train")
# What a step takes besides its marked part, in milliseconds: the engine waits for its accelerator.
BESIDES = {"llm-loop": 17.0}

WRAPPER = """#!/bin/sh
# The interpreter, with a trace where a policy is in force.
if [ -n "$NEUROGC_POLICY" ]; then
    export NEUROGC_SAMPLE_MS=100
    export NEUROGC_TRACE="{folder}/$NEUROGC_POLICY-$(date +%s%N).ngct"
fi
exec "{python}" "$@"
"""


def measure(scenario: str, folder: Path, python: str, runs: int) -> None:
    """Runs one scenario and keeps its traces."""
    folder.mkdir(parents=True)
    wrapper = folder / "python"
    wrapper.write_text(WRAPPER.format(folder=folder, python=python))
    wrapper.chmod(0o755)
    command = [NEUROGC, "bench", scenario, "--policies", ",".join(POLICIES), "--runs", str(runs),
               "--python", wrapper, "--out", folder / "bench"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def simulate(scenario: str, trace: Path, others: list[Path]) -> dict[str, dict]:
    """What the simulator says about a trace, by policy."""
    command = [NEUROGC, "simulate", trace, "--policies", ",".join(POLICIES), "--no-oracle", "--json",
               "--warm-up", str(0.0 if scenario in LOOPS else WARM_UP)]
    for other in others:
        command += ["--with", other]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    outcomes = {row["policy"]: row for row in json.loads(done.stdout)[0]["rows"]}
    for outcome in outcomes.values():
        for figure in ("p50_ms", "p99_ms"):
            outcome[figure] += BESIDES.get(scenario, 0.0)
    return outcomes


def compare(scenario: str, folder: Path, disturbed_too: bool) -> list[dict]:
    """One row for each pair of policies: recorded under, and played under."""
    run = json.loads((folder / "bench" / "run.json").read_text())
    trials = {entry["contender"]: entry["trials"] for entry in run["scenarios"][0]["entries"]}
    traces = {policy: sorted(folder.glob(f"{policy}-*.ngct")) for policy in POLICIES}
    rows = []
    for recorded, played, helped in itertools.product(POLICIES, POLICIES, (False, True)):
        if helped and (played == recorded or len(traces[played]) < 2):
            continue
        pairs = []
        for at, trace in enumerate(traces[recorded]):
            both = [trials[name][at] for name in {recorded, played}]
            if disturbed_too or not any(trial.get("doubts") for trial in both):
                others = [traces[played][(at + 1) % len(traces[played])]] if helped else []
                pairs.append((trials[played][at]["figures"], simulate(scenario, trace, others)[played]))
        row = {"scenario": scenario, "recorded": recorded + (f", with another of {played}" if helped else ""),
               "played": played, "runs": len(pairs)}
        for name, measured, simulated in FIGURES:
            scale = 1e6 if name == "rss" else 1.0
            real = [figures[measured] / scale for figures, _ in pairs]
            said = [outcome[simulated] for _, outcome in pairs]
            if pairs:
                ratios = [s / r for s, r in zip(said, real, strict=True)]
                row[name] = (statistics.median(real), statistics.median(said), statistics.median(ratios))
        rows.append(row)
    return rows


COLUMNS = ["scenario", "recorded under", "played under", "runs", "p50: measured, simulated", "p99: measured, simulated",
           "off by", "peak RSS: measured, simulated", "off by", "within 15 %"]


def cells_of(row: dict) -> list[str]:
    """A row of the table."""
    cells = [row["scenario"], row["recorded"], row["played"], str(row["runs"])]
    if not row["runs"]:
        return cells + ["all runs were disturbed"] + [""] * 5
    (p50, p50_said, _), (p99, p99_said, p99_off), (rss, rss_said, rss_off) = row["p50"], row["p99"], row["rss"]
    good = abs(p99_off - 1) <= BAR and abs(rss_off - 1) <= BAR
    return cells + [f"{p50:.1f} ms, {p50_said:.1f} ms", f"{p99:.1f} ms, {p99_said:.1f} ms",
                    f"{(p99_off - 1) * 100:+.0f} %", f"{rss:.0f} MB, {rss_said:.0f} MB",
                    f"{(rss_off - 1) * 100:+.0f} %", "yes" if good else "**no**"]


def main() -> int:
    """Measures, or takes what was measured before, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", default=["attribution", "mixed-open", "llm-loop"])
    parser.add_argument("--python", default=sys.executable, help="an interpreter with what the scenarios need")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for traces and figures; what is there is not measured again")
    parser.add_argument("--disturbed-too", action="store_true", help="count runs that the bench calls doubtful")
    parser.add_argument("--save", action="store_true", help="also write the table of docs/benchmarks.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        kept = (arguments.keep or Path(scratch)).resolve()
        rows = []
        for scenario in arguments.scenarios:
            folder = kept / scenario
            if not (folder / "bench" / "run.json").exists():
                measure(scenario, folder, arguments.python, arguments.runs)
            rows += compare(scenario, folder, arguments.disturbed_too)
    table = [cells_of(row) for row in rows]
    for row in [COLUMNS, ["---"] * len(COLUMNS), *table]:
        print(f"| {' | '.join(row)} |")
    if arguments.save:
        command = f"python bench/validate_simulator.py {' '.join(arguments.scenarios)}"
        results.save("simulator", command, COLUMNS, table, keys=3, measured=results.today())
    return 0


if __name__ == "__main__":
    sys.exit(main())

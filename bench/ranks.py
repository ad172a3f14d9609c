"""What collections cost a training job whose ranks wait for each other: DDP over gloo on the CPU, with real PyTorch.

    python bench/ranks.py [--python PYTHON] [--ranks 2,4] [--contenders default,every,neurogc] [--steps 1000] [--rounds 2]
                          [--keep FILE] [--save]

PYTHON is an interpreter with torch: that of `make training` by default. Each rank notes at which steps it was stopped and for
how long. A step of the job is as long as that of its slowest rank, so the job pays, for each step, for the longest stop of any
rank. That sum is compared with what one rank pays: the one that pays most, and the mean of all. Contenders: CPython's default, `every` (TorchTitan's way: gc.disable() and
gc.collect(1) at every 50th step) and neurogc; `neurogc:20` is that with align_steps=20. Steps are counts, and hold on a busy
machine, too; times do not. `--keep` puts every stop into a file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import results

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "training" / "gloo_ranks.py"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
COLUMNS = ["ranks", "contender", "steps with a stop, one rank", "steps with a stop, job", "stops of the job / 1,000 steps",
           "stops of one rank / 1,000 steps", "job ÷ costliest rank", "job ÷ mean rank", "median step"]
LIMIT_S = 600


def main() -> None:
    """Runs all jobs, in turn, and prints a table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--python", default=str(TARGET / "suite-training" / "bin" / "python"))
    asked.add_argument("--ranks", default="2,4")
    asked.add_argument("--contenders", default="default,every,neurogc")
    asked.add_argument("--steps", type=int, default=1000)
    asked.add_argument("--heap", type=int, default=300_000, help="lists that each rank keeps")
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--keep", type=Path, help="a file for what the ranks told")
    asked.add_argument("--save", action="store_true", help="put the rows into bench/results/ranks.json")
    options = asked.parse_args()
    contenders = options.contenders.split(",")
    rows = []
    for ranks in map(int, options.ranks.split(",")):
        found = {contender: [] for contender in contenders}
        for _ in range(options.rounds):
            for contender in contenders:
                told = job(options, ranks, contender)
                found[contender].append(judged(told, options.steps))
                if options.keep:
                    with options.keep.open("a") as file:
                        print(json.dumps({"ranks": ranks, "contender": contender, "told": told}), file=file)
        for contender in contenders:
            rows.append(row(ranks, contender, found[contender]))
            print("  ".join(rows[-1]), flush=True)
    print(" | ".join(COLUMNS))
    if options.save:
        command = f"python bench/ranks.py --steps {options.steps} --heap {options.heap} --rounds {options.rounds} --save"
        results.save("ranks", command, COLUMNS, rows, keys=2, measured=results.today("PyTorch, gloo, CPU"))


def job(options: argparse.Namespace, ranks: int, contender: str) -> list[dict]:
    """Runs the ranks of one job to their end, and gives what each told."""
    way, _, align_steps = contender.partition(":")
    words = [options.python, str(PROGRAM), way, str(options.steps), str(options.heap)]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NEUROGC_"))}
    if align_steps:
        env["NEUROGC_ALIGN_STEPS"] = align_steps
    if way == "neurogc":
        words = [str(TARGET / "fast" / "neurogc"), "run", "--", *words]
    with tempfile.TemporaryDirectory() as folder:
        env |= {"WORLD_SIZE": str(ranks), "RENDEZVOUS": f"{folder}/rendezvous"}
        running = [
            subprocess.Popen(words, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)
        ]
        try:
            told = [json.loads(process.communicate(timeout=LIMIT_S)[0].splitlines()[-1]) for process in running]
        finally:
            for process in running:
                process.kill()
    return told


def judged(told: list[dict], steps: int) -> dict:
    """What the ranks and the job have paid for stops."""
    by_rank = []
    for rank in told:
        paid: dict[int, float] = {}
        for step, _, wall_ms, _ in rank["stops"]:
            # Before its first step has ended, a rank is a process of its own.
            if step > 0:
                paid[step] = paid.get(step, 0.0) + wall_ms
        by_rank.append(paid)
    stopped = set().union(*by_rank)
    job_ms = sum(max(paid.get(step, 0.0) for paid in by_rank) for step in stopped)
    rank_ms = statistics.fmean(sum(paid.values()) for paid in by_rank)
    most_ms = max(sum(paid.values()) for paid in by_rank)
    return {
        "rank_steps": statistics.fmean(len(paid) for paid in by_rank),
        "job_steps": len(stopped),
        "job_ms": 1000 * job_ms / steps,
        "rank_ms": 1000 * rank_ms / steps,
        "ratio": job_ms / most_ms,
        "mean_ratio": job_ms / rank_ms,
        "step_ms": statistics.median(rank["step_p50_ms"] for rank in told),
    }


def row(ranks: int, contender: str, found: list[dict]) -> list[str]:
    """One row of the table: medians of the rounds."""
    of = {name: statistics.median(each[name] for each in found) for name in found[0]}
    misses = contender.startswith("neurogc") and of["ratio"] > 1.1
    return [str(ranks), contender, f"{of['rank_steps']:.0f}", f"{of['job_steps']:.0f}", f"{of['job_ms']:.1f} ms",
            f"{of['rank_ms']:.1f} ms", results.bold(results.ratio(of["ratio"]), misses), results.ratio(of["mean_ratio"]),
            f"{of['step_ms']:.1f} ms"]


if __name__ == "__main__":
    sys.exit(main())

"""`make soak`: what takes too long for `make test`: larger heaps, a million random graphs, minutes of stress, races, a
million schedules of the acting half, how near the figures of allocation sites are to the truth, and attaching to programs
of many kinds.

    soak.py [--seconds 600] [--graphs 1000000] [--live 1000000,5000000] [--times 50] [--schedules 1000000] [--seeds 20]
            [--attaches 500] [--only TAG] [--part races]

Each part runs on every interpreter found, except the largest heaps, which need about 4 GB, and the schedules, which need
no interpreter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import interpreters
from interpreters import ROOT

COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fast" / "neurogc"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600, help="of stress on each interpreter")
    parser.add_argument("--graphs", type=int, default=1_000_000, help="random graphs, all interpreters together")
    parser.add_argument("--live", default="1000000,5000000", help="sizes of the heaps that both methods collect")
    parser.add_argument("--times", type=int, default=50, help="how often each race is run")
    parser.add_argument("--seeds", type=int, default=20, help="how often the accuracy of allocation sites is measured")
    parser.add_argument("--schedules", type=int, default=1_000_000, help="of the acting half, in a fake interpreter")
    parser.add_argument("--attaches", type=int, default=500, help="to programs of all kinds, on each interpreter")
    parser.add_argument(
        "--part", help="one part, by its title's first word: schedules, both, random, stress, accuracy, races or attach"
    )
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--only", help="one interpreter, for instance cp312")
    options = parser.parse_args()
    found = [it for it in interpreters.find() if it.supported and options.only in (None, it.tag)]
    failed = 0
    if options.part in (None, "schedules"):
        print(f"soak: {options.schedules} schedules from seed {options.seed}", flush=True)
        failed += run_schedules(options.schedules, options.seed) != 0
    for interpreter in found:
        python = str(interpreters.environment(interpreter))
        share = str(options.graphs // len(found))
        suite = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_snapshot.py", "-k", "the_same_is"]
        fuzz = [python, "tools/fuzz_graphs.py", "--graphs", share, "--seed", str(options.seed)]
        stress = [python, "-W", "ignore", "tests/apps/snapshot_stress.py", str(options.seconds)]
        races = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-m", "race", "-n", "4", "--tb=short"]
        accuracy = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_allocations.py", "-k", "accuracy"]
        attach = [sys.executable, "tools/attach_soak.py", python, "--times", str(options.attaches)]
        parts = [
            ("both methods", suite, {"NEUROGC_TEST_LIVE": options.live}),
            ("random graphs", fuzz, {}),
            ("stress", stress, {}),
            ("accuracy", accuracy, {"NEUROGC_TEST_SEEDS": str(options.seeds), "NEUROGC_BIN": str(COMMAND)}),
            ("races", races, {"NEUROGC_TEST_TIMES": str(options.times), "NEUROGC_BIN": str(COMMAND)}),
            ("attach", attach, {}),
        ]
        for title, command, more in parts:
            if options.part not in (None, title.split()[0]):
                continue
            print(f"soak: {interpreter.title}: {title}", flush=True)
            failed += run(command, more) != 0
    print(f"soak: {len(found)} interpreters, {failed} parts failed")
    return 1 if failed or not found else 0


def run_schedules(count: int, seed: int) -> int:
    """Plays seeded schedules of the acting half. A seed that fails is printed."""
    command = ["cargo", "test", "--profile", "fast", "-p", "neurogc-agent", "act::schedules", "--", "--nocapture"]
    more = {"NEUROGC_SCHEDULES": str(count), "NEUROGC_SEED": str(seed), "PYO3_PYTHON": "python3"}
    return subprocess.run(command, cwd=ROOT, env=os.environ | more).returncode


def run(command: list[str], more: dict[str, str]) -> int:
    """Runs a command under the agent, which only watches."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NEUROGC_"))}
    env |= more
    if "pytest" not in command and "tools/attach_soak.py" not in command:
        home = ROOT / "python" / "neurogc"
        env |= {"PYTHONPATH": str(home / "_inject"), "NEUROGC_HOME": str(home), "NEUROGC_POLICY": "observe"}
    return subprocess.run(command, cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())

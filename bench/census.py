"""What a census adds to the flight of a collection: two programs with the same heap, one without censuses, collect by turns.

    python bench/census.py [--objects 3000000] [--pairs 12]        with `python/` on PYTHONPATH

The figure is the processor time of the clone, as the kernel adds it up for children that were waited for. Other work on the machine
changes it less than the length of the flight. With `--save` the result goes into the table of docs/benchmarks.md.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import results  # noqa: E402

GOAL = 1.10


def clones():
    """Processor time of all clones so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one(objects):
    """Collects from a snapshot for each line of the input, and prints the processor time of the clone."""
    import heap
    import neurogc

    neurogc.install(policy="observe", adapters=False)
    kept = heap.build(objects, True)
    for _ in sys.stdin:
        before = clones()
        neurogc.collect("snapshot")
        print(clones() - before, flush=True)
    assert kept


def start(objects, census):
    words = [sys.executable, __file__, "--one", "--objects", str(objects)]
    environment = os.environ | {"NEUROGC_CENSUS_S": "600" if census else "0"}
    return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def flight(program):
    program.stdin.write("\n")
    program.stdin.flush()
    return float(program.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--objects", type=int, default=3_000_000)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--save", action="store_true", help="put the result into the table of docs/benchmarks.md")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.objects)
    programs = [start(options.objects, census) for census in (False, True)]
    try:
        # The first flights look for memory that later ones leave out.
        for _ in range(2):
            [flight(program) for program in programs]
        pairs = []
        for number in range(options.pairs):
            order = (0, 1) if number % 2 else (1, 0)
            times = {which: flight(programs[which]) for which in order}
            pairs.append((times[0], times[1]))
            print(f"without {times[0]:.3f} s, with a census {times[1]:.3f} s: {times[1] / times[0]:.3f}", flush=True)
    finally:
        for program in programs:
            program.kill()
            program.wait()
    ratios = [counted / plain for plain, counted in pairs]
    ratio = statistics.median(ratios)
    print(f"median of {len(pairs)} pairs {ratio:.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    if options.save:
        row = [
            f"{options.objects / 1e6:g} M", f"{len(pairs)}", f"{statistics.median(plain for plain, _ in pairs):.2f} s",
            f"{statistics.median(counted for _, counted in pairs):.2f} s", results.bold(f"{ratio:.2f}", ratio > GOAL),
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        ]
        columns = ["objects", "pairs", "processor time of the clone", "with a census", "median ratio", "least to most"]
        results.save("census", "python bench/census.py --save", columns, [row], keys=1, measured=results.today())
    return int(ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main())

"""What the allocation sampler costs a service: latency with it and without, in interleaved pairs.

    python bench/allocation_latency.py [--pairs 20] [--seconds 8] [--rate 150]

Needs fastapi and uvicorn, the built package, and a quiet machine. Two services (bench/service.py) run all the time, both under
policy `observe`, one with the sampler of Python and native memory. They are loaded in turn, in changing order and with the
same arrivals in a pair.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load import percentiles  # noqa: E402
from serve import confidence, spins_for  # noqa: E402
from trial import Service, Setup  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float, default=150)
    parser.add_argument("--records", type=int, default=100_000)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    common = {"spins": spins_for(2.0, {cores[0]}), "loop": "asyncio", "rest": 1.0, "warm_up": 0.5}
    common |= {"service_cores": {cores[0]}, "load_cores": {cores[-1]}}
    setups = {mode: Setup(**common, settings={"allocations": mode}) for mode in ("off", "native")}
    ratios: dict[str, list[float]] = {"p50": [], "p99": []}
    with Service(setups["off"], "observe", given.records) as off, Service(setups["native"], "observe", given.records) as on:
        for index in range(given.pairs):
            found = {}
            for mode, service in sorted({"off": off, "native": on}.items(), reverse=bool(index % 2)):
                answers = service.drive("open", given.seconds, rate=given.rate, seed=index)
                found[mode] = percentiles(answers["latencies_ms"])
            for figure, values in ratios.items():
                values.append(found["native"][figure] / found["off"][figure])
            print(json.dumps({"pair": index, **found}), flush=True)
        mode = on.report(0.0, 0.0)["neurogc"]["allocations"]["mode"]
    for figure, values in ratios.items():
        middle, low, high = confidence(values)
        print(f"{mode}: {figure} {middle:.4f} × [{low:.4f}, {high:.4f}]", flush=True)


if __name__ == "__main__":
    main()

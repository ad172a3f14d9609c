"""The tables of docs/benchmarks.md: each is a file in bench/results, written by the program that measured.

    python bench/results.py bounds saturated RUN…          RUN is a folder that `neurogc bench` has written. One row for each
    python bench/results.py summary all-scenarios RUN…     scenario: the last contender ÷ CPython's default
    python bench/results.py policies large-heap RUN…       one row for each scenario and contender

Then `cargo run -p xtask -- docs` puts the tables into the page, and `make lint` fails where the page has another one. A row
replaces the one with the same first cells and keeps its place; other rows stay, so that a part can be measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def save(name: str, command: str, columns: list[str], rows: list[list[str]], *, keys: int, measured: str) -> Path:
    """Adds rows to a table, or replaces them. The first `keys` cells name a row; `measured` says when and where."""
    path = RESULTS / f"{name}.json"
    table = json.loads(path.read_text()) if path.exists() else {"command": command, "columns": columns, "rows": []}
    if table["columns"] != columns:
        sys.exit(f"results: {path} has other columns; delete it to begin anew")
    there = {tuple(row["cells"][:keys]): row for row in table["rows"]}
    if there.keys() <= {tuple(cells[:keys]) for cells in rows}:
        table["command"] = command
    for cells in rows:
        there[tuple(cells[:keys])] = {"cells": cells, "measured": measured}
    table["rows"] = list(there.values())
    path.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n")
    print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}: {len(rows)} of "
          f"{len(there)} rows; now run `cargo run -p xtask -- docs`", file=sys.stderr)
    return path


def today(more: str = "", at: float | None = None) -> str:
    """When and where something was measured: at a time, now when left out, with this interpreter on this machine."""
    date = time.strftime("%Y-%m-%d", time.gmtime(at))
    facts = [date, f"CPython {platform.python_version()}", f"{os.cpu_count()} cores", more]
    return ", ".join(fact for fact in facts if fact)


def bold(text: str, misses: bool) -> str:
    """A figure, bold where it misses its goal."""
    return f"**{text}**" if misses else text


def ratio(value: float) -> str:
    """A ratio with as many digits as it is worth."""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def trials(entry: dict, figure: str) -> list[float]:
    """A figure of all trials of a contender."""
    return [trial["figures"][figure] for trial in entry["trials"] if figure in trial["figures"]]


def scenarios(run: dict) -> list[dict]:
    """The scenarios of a run that were measured."""
    return [scenario for scenario in run["scenarios"] if scenario["entries"]]


def against_default(scenario: dict, figure: str) -> float:
    """The last contender ÷ the first: the geometric mean over runs."""
    plain, ours = scenario["entries"][0], scenario["entries"][-1]
    pairs = zip(trials(ours, figure), trials(plain, figure))
    logs = [math.log(one / other) for one, other in pairs if one > 0 and other > 0]
    return math.exp(statistics.mean(logs)) if logs else math.nan


def bounds(run: dict) -> list[list[str]]:
    """What a service without rest has to keep, with its goals."""
    rows = []
    for scenario in scenarios(run):
        stop, rss, everything, tail, rate = (against_default(scenario, name) for name in
                                             ("stop_max_ms", "rss_peak", "all_peak", "p999_ms", "per_second"))
        # With a core to spare the goals are stricter.
        most_rss, least_rate = (1.15, 1.2) if scenario["scenario"] == "saturated" else (1.25, 0.98)
        longest = max(trials(scenario["entries"][-1], "stop_max_ms"), default=math.nan)
        rows.append([f"`{scenario['scenario']}`", bold(ratio(rss), rss > most_rss),
                     bold(ratio(everything), everything > 1.4), f"{ratio(stop)} ({longest:.0f} ms)",
                     bold(ratio(tail), tail > 0.3), bold(ratio(rate), rate < least_rate)])
    return rows


def summary(run: dict) -> list[list[str]]:
    """Latency, memory and processor time."""
    figures = ("p99_ms", "p999_ms", "rss_peak", "cpu_each_ms")
    return [[f"`{scenario['scenario']}`", *(ratio(against_default(scenario, figure)) for figure in figures)]
            for scenario in scenarios(run)]


def by_policy(run: dict) -> list[list[str]]:
    """One row for each contender: medians of the runs, the longest and the largest of all."""
    rows = []
    for scenario in scenarios(run):
        for entry in scenario["entries"]:
            middle = [statistics.median(trials(entry, name)) for name in ("p50_ms", "p99_ms", "p999_ms")]
            most = {name: max(trials(entry, name)) for name in ("max_ms", "rss_peak", "all_peak")}
            rows.append([
                f"`{scenario['scenario']}`", f"`{entry['contender']}`", *(f"{each:.1f} ms" for each in middle),
                f"{most['max_ms']:.1f} ms", f"{most['rss_peak'] / 1e6:.0f} MB", f"{most['all_peak'] / 1e6:.0f} MB",
                f"{sum(trials(entry, 'full_count')):.0f}",
            ])
    return rows


# The columns of each kind of table, how many of them name a row, and what makes the rows.
KINDS = {
    "bounds": (["scenario", "peak RSS", "peak with clones", "longest stop", "p99.9", "requests a second"], 1, bounds),
    "summary": (["scenario", "p99", "p99.9", "peak RSS", "CPU for each request"], 1, summary),
    "policies": (["scenario", "policy", "p50", "p99", "p99.9", "longest", "peak RSS", "peak with clones",
                  "full collections"], 2, by_policy),
}


def main() -> None:
    """Makes a table of runs of `neurogc bench`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name", help="the table, for instance saturated")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a folder that `neurogc bench` has written")
    words = parser.parse_args()
    columns, keys, rows = KINDS[words.kind]
    for folder in words.runs:
        run = json.loads((folder / "run.json").read_text())
        machine, runs = run["machine"], run["runs"]
        contenders = dict.fromkeys(entry["contender"] for each in run["scenarios"] for entry in each["entries"])
        measured = (f"{machine['date'][:10]}, {machine['python']}, {machine['cores']} cores, "
                    f"{runs} {'run' if runs == 1 else 'runs'} each")
        names = " ".join(scenario["scenario"] for scenario in run["scenarios"])
        command = f"neurogc bench {names} --policies {','.join(contenders)}"
        save(words.name, command, columns, rows(run), keys=keys, measured=measured)


if __name__ == "__main__":
    main()

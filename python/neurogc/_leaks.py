"""Tests with `limit_leaks`: each is run many times, with its fixtures, and judged by how memory grows from run to run."""

import array
import gc
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile

import pytest
from _pytest.runner import runtestprotocol

from . import _native, heap
from ._counted import by_stack, remarks, site_lines
from ._limits import size

_ALL_SITES = 1 << 14
_MOST_HOLDERS = 3
_PACKAGE = os.path.dirname(__file__) + os.sep


def repeat(item, nextitem, limit):
    """Runs the test as often as the mark says, and gives the reports of the last run, judged."""
    # After each run the fixtures of the test are torn down, and those of its module and class stay.
    sibling = _Sibling.from_parent(item.parent, name=f"{item.name}, once more")
    total = limit.warmup + limit.runs
    # Nothing is allocated for what is noted here while allocations are counted.
    live = array.array("q", bytes(8 * (total + 1)))
    before = None
    _native.agent.count_begin()
    try:
        for run in range(total + 1):
            if run > 0:
                reports = runtestprotocol(item, log=False, nextitem=sibling)
                if not all(report.passed for report in reports):
                    break
            if run < total:
                reports = None
            gc.collect()
            if run == limit.warmup:
                before = _native.agent.count_figures(_ALL_SITES)
            live[run] = _native.agent.count_mark()[0]
    finally:
        _native.agent.count_end()
    if all(report.passed for report in reports):
        after = _native.agent.count_figures(_ALL_SITES)
        growth = trimmed_growth(live[limit.warmup:])
        if growth > limit.limit:
            _fail(reports, _failure(limit, growth, json.loads(before), json.loads(after), _holders(item, sibling, limit.runs)))
    else:
        for report in reports:
            report.sections.append(("neurogc", f"this is run {run} of {total}"))
    return _finished(item, nextitem, reports)


def trimmed_growth(live):
    """By how much memory grew, without the steps that are not those of a leak.

    A cache that is made once, or a table that is doubled, is one large step. The largest and the smallest tenth of the
    steps are set aside, at least one each, and the others stand for them.
    """
    steps = sorted(after - before for before, after in zip(live, live[1:]))
    aside = max(1, len(steps) // 10)
    middle = steps[aside:-aside]
    return max(0, round(sum(middle) * len(steps) / len(middle)))


def _failure(limit, growth, before, after, holders):
    known = by_stack(before["sites"], "live", "live_blocks")
    grown = {}
    for stack, (found, blocks) in by_stack(after["sites"], "live", "live_blocks").items():
        if not stack or not stack[0][0].startswith(_PACKAGE):
            was, blocks_were = known.get(stack, (0, 0))
            grown[stack] = (found - was, blocks - blocks_were)
    each = size(growth / limit.runs)
    lines = [f"memory grows by {size(growth)} over {limit.runs} runs, {each} each time; the limit is {size(limit.limit)}"]
    lines += ["what grew was allocated at:", *site_lines(grown)]
    if holders:
        lines += ["and is held by:", *holders]
    return "\n".join(lines + remarks(after))


def _holders(item, sibling, runs):
    """Where the objects are that stayed: the test is run as often again between two dumps, which are compared."""
    command = _command()
    if command is None:
        return []
    with tempfile.TemporaryDirectory(prefix="neurogc-leaks-") as folder:
        a, b = os.path.join(folder, "a.ngch"), os.path.join(folder, "b.ngch")
        try:
            heap.dump(a)
            for _ in range(runs):
                runtestprotocol(item, log=False, nextitem=sibling)
            gc.collect()
            heap.dump(b)
            done = subprocess.run([command, "heap", "diff", a, b, "--json"], capture_output=True, timeout=120, check=True)
            rows = json.loads(done.stdout)["rows"]
        except (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError):
            return []
    # What holds a leak has one object more after most runs.
    rows = [row for row in rows if row["objects"] >= runs // 2 and row["retained"] > 0]
    return [
        f"  {row['place']} ({row['type']}): {row['objects']:,} more objects, {size(row['retained'])}"
        for row in rows[:_MOST_HOLDERS]
    ]


def _command():
    """The `neurogc` command."""
    beside = os.path.join(sysconfig.get_path("scripts"), "neurogc")
    return beside if os.access(beside, os.X_OK) else shutil.which("neurogc")


def _fail(reports, text):
    """Makes the report on the call one of a failure, which an `xfail` mark may expect."""
    for report in reports:
        if report.when == "call":
            report.longrepr = text
            report.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"


def _finished(item, nextitem, reports):
    """Tears down what the next test does not need. A failure there is one of this test."""
    call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
    if call.excinfo is not None:
        torn_down = item.ihook.pytest_runtest_makereport(item=item, call=call)
        reports = [report for report in reports if report.when != "teardown"] + [torn_down]
    return reports


class _Sibling(pytest.Item):
    """Stands for the next run of a test: it needs what the test's parents have set up, and not the test itself."""

    def runtest(self):
        raise NotImplementedError("it is never run")

    def reportinfo(self):
        return self.path, 0, self.name

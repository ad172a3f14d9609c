"""Limits on the memory, leaks and pauses of tests: what `pytest --neurogc` adds. `neurogc_pytest` is its entry.

A marked test is counted exactly, allocation by allocation; `_limits` reads the marks and `_leaks` repeats a test. All
other tests are only sampled, for the list of the heaviest ones.
"""

import gc
import sys
import time

import pytest

import neurogc
from neurogc import _counted, _native
from neurogc._limits import BadMark, duration, limits_of, size

__all__ = ["Plugin"]

_LIMITS = pytest.StashKey()
_FIGURES = pytest.StashKey()


class Plugin:
    """The plugin of one pytest process."""

    def __init__(self, config):
        self.config = config
        self.heaviest = []
        self.unchecked = []
        # With xdist, tests run in the workers only.
        self.runs_tests = hasattr(config, "workerinput") or getattr(config.option, "dist", "no") == "no"
        self.installed = False
        self.reason = None
        if self.runs_tests:
            self._install()

    def _install(self):
        """Starts the agent, unless `neurogc run` has, and finds out whether allocations can be counted."""
        agent = _native.agent
        if not hasattr(agent, "count_begin"):
            self.reason = "the extension module of neurogc cannot be loaded here"
            return
        if not agent.installed():
            neurogc.install(policy="observe", adapters=False)
            self.installed = True
        try:
            with _counted.Section():
                pass
        except RuntimeError as error:
            allocations = neurogc.status()["allocations"]
            self.reason = allocations.get("reason") or str(error)

    def pytest_unconfigure(self):
        if self.installed:
            neurogc.uninstall()

    def pytest_report_header(self):
        if not self.runs_tests:
            return "neurogc: limits are checked in the workers"
        if self.reason:
            return f"neurogc: limits of memory are not checked: {self.reason}"
        counted = "Python and native allocations" if _counted.is_native() else (
            "allocations of CPython's allocators (native code is not counted; `python -m pytest` or `neurogc run` counts it)"
        )
        return f"neurogc: limits are checked, counting {counted}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        try:
            item.stash[_LIMITS] = limits_of(item)
            return
        except BadMark as error:
            what = str(error)
        pytest.fail(what, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Repeats a test with `limit_leaks`; all others take their usual way."""
        if item.get_closest_marker("limit_leaks") is None or self.reason:
            return None
        try:
            limits = limits_of(item)
        except BadMark:
            return None
        from neurogc import _leaks

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in _leaks.repeat(item, nextitem, limits.leaks):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        limits = item.stash[_LIMITS]
        if limits.memory is None and limits.pauses is None:
            return (yield from self._sampled(item))
        if self.reason and limits.memory is not None:
            item.stash[_FIGURES] = {"unchecked": True}
        return (yield from self._limited(item, limits))

    def _sampled(self, item):
        """A test without limits: what the sampler sees costs nothing more."""
        weights = getattr(_native.agent, "sampled_weights", lambda: None)
        before = weights()
        try:
            return (yield)
        finally:
            if before is not None:
                item.stash[_FIGURES] = {"peak": weights()[1] - before[0], "exact": False}

    def _limited(self, item, limits):
        counts = limits.memory is not None and not self.reason
        stops = _Stops() if limits.pauses is not None else None
        if counts:
            gc.collect()
        section = _counted.Section() if counts else None
        try:
            if section is not None:
                section.begin()
            if stops is not None:
                stops.watch()
            result = yield
        finally:
            if stops is not None:
                stops.unwatch()
            if section is not None:
                section.end()
                item.stash[_FIGURES] = {"peak": section.peak, "exact": True}
        failures = []
        if section is not None and section.peak > limits.memory:
            failures.append(memory_failure(section, limits.memory))
        if stops is not None and stops.longest > limits.pauses:
            failures.append(stops.failure(limits.pauses))
        if failures:
            pytest.fail("\n\n".join(failures), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        figures = item.stash.get(_FIGURES, None)
        if call.when == "call" and figures is not None:
            # Workers of xdist send the attributes of a report, as far as they are plain values.
            report.neurogc = figures
        return report

    def pytest_runtest_logreport(self, report):
        figures = getattr(report, "neurogc", None)
        if report.when != "call" or figures is None:
            return
        if figures.get("unchecked"):
            self.unchecked.append(report.nodeid)
        elif figures["peak"] > 0:
            self.heaviest.append((figures["peak"], figures["exact"], report.nodeid))

    def pytest_terminal_summary(self, terminalreporter):
        top = self.config.getoption("neurogc_top")
        # Below this an estimate says nothing.
        heaviest = [entry for entry in self.heaviest if entry[1] or entry[0] >= 1 << 18]
        heaviest.sort(key=lambda entry: entry[0], reverse=True)
        if top > 0 and heaviest:
            terminalreporter.section("neurogc: tests that took the most memory")
            for peak, exact, name in heaviest[:top]:
                terminalreporter.write_line(f"{'' if exact else '~':>1}{size(peak):>9}  {name}")
            if not all(exact for _, exact, _ in heaviest[:top]):
                terminalreporter.write_line("~ is an estimate from sampled allocations; tests with a limit are counted exactly")
        if self.unchecked:
            terminalreporter.write_line(
                f"neurogc: the limits of {len(self.unchecked)} tests were not checked: see the header for the reason",
                yellow=True,
            )


def memory_failure(section, limit):
    """What is said of a test that took too much memory."""
    figures = section.figures
    lines = [f"the test took {size(figures['peak'])} of memory at a time; its limit is {size(limit)}", "at that moment lived:"]
    lines += _counted.site_lines(_counted.by_stack(figures["sites"], "at_peak", "blocks_at_peak"))
    lines.append(f"it allocated {size(figures['made'])} in {figures['made_blocks']:,} blocks altogether")
    return "\n".join(lines + _counted.remarks(figures))


class _Stops:
    """The longest stop of the collector while it is watched."""

    def __init__(self):
        self.longest = 0.0
        self.count = 0
        self._began = None
        self._worst = None

    def watch(self):
        gc.callbacks.append(self._event)

    def unwatch(self):
        if self._event in gc.callbacks:
            gc.callbacks.remove(self._event)

    def _event(self, phase, info):
        if phase == "start":
            frame = sys._getframe(1)
            self._began = (time.perf_counter(), time.thread_time(), frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            return
        if self._began is None:
            return
        wall, processor, *place = self._began
        wall, processor = time.perf_counter() - wall, time.thread_time() - processor
        self._began = None
        self.count += 1
        # The system may have run something else meanwhile, for which the collector is not to blame.
        took = min(wall, processor)
        if took > self.longest:
            self.longest = took
            self._worst = (wall, place, dict(info))

    def failure(self, limit):
        wall, (file, line, function), info = self._worst
        return "\n".join([
            f"a garbage collection took {duration(self.longest)}; the limit is {duration(limit)}",
            f"  generation {info.get('generation')}, {info.get('collected', 0):,} objects freed, {duration(wall)} on the clock",
            f"  begun at {file}:{line} in {function}",
            f"  {self.count} collection{'s' * (self.count != 1)} in the test",
        ])

"""Memory line by line: `@neurogc.profile_memory`, `%%memory` in notebooks, and `neurogc run --lines`.

A marked function is counted exactly: at each of its lines the agent is asked what lives now and the most that lived
since the line before. From 3.12 on only the marked functions are watched (sys.monitoring), before that by a trace
function.
"""

import functools
import inspect
import os
import sys
import time

from . import _counted, _native
from ._limits import size

_MOST_LINES = 20


class LineFigures:
    """One line of a function: `change` in bytes over all times that it ran, `peak` above the beginning of the call, `times`."""

    __slots__ = ("change", "peak", "times")

    def __init__(self):
        self.change = self.peak = self.times = 0


class FunctionProfile:
    """What a marked function did with memory: `calls`, `peak` in bytes, and `lines`, a dict of line numbers to figures."""

    def __init__(self, function):
        code = function.__code__
        self.file, self.name, self.first_line = code.co_filename, function.__qualname__, code.co_firstlineno
        self.calls = 0
        # All lines are there before anything is counted: a dict that grows would be counted, too.
        self.lines = {line: LineFigures() for _, _, line in code.co_lines() if line}

    @property
    def peak(self):
        return max((line.peak for line in self.lines.values()), default=0)

    def __str__(self):
        import linecache

        head = f"{self.file}:{self.first_line} {self.name}(): {self.calls} call{'s' * (self.calls != 1)}, peak {size(self.peak)}"
        rows = [head, f"{'LINE':>6} {'CHANGE':>10} {'PEAK':>10} {'TIMES':>8}  CODE"]
        for number in range(self.first_line, max(self.lines, default=self.first_line) + 1):
            line, code = self.lines.get(number), linecache.getline(self.file, number).rstrip()
            if line is not None and line.times:
                sign = "+" if line.change > 0 else ""
                rows.append(f"{number:>6} {sign + size(line.change):>10} {size(line.peak):>10} {line.times:>8,}  {code}".rstrip())
            else:
                rows.append(f"{number:>6} {'':>10} {'':>10} {'':>8}  {code}".rstrip())
        return "\n".join(rows)


class _Running:
    """A call that goes on: what it began with, and the figures of the line that runs."""

    __slots__ = ("base", "figures", "lines", "live", "peak")

    def __init__(self, profile, live):
        self.lines, self.base, self.live, self.peak, self.figures = profile.lines, live, live, live, None


class _Profiler:
    """Counts the lines of marked functions while one of them runs."""

    def __init__(self):
        self.profiles = {}
        self.running = {}
        self.open = 0
        self.stop = self.leave = None
        self.pid = None
        self.refused = False

    def add(self, function):
        if not self.profiles:
            import atexit

            self.pid = os.getpid()
            atexit.register(self.print)
        profile = self.profiles[function.__code__] = FunctionProfile(function)
        return profile

    def begin(self):
        self.open += 1
        if self.open == 1:
            try:
                _counted.prepare()
                _native.agent.count_begin(False)
                self.stop = _monitor(self) if sys.version_info >= (3, 12) else _trace(self)
            except RuntimeError as error:
                _native.agent.count_end() if hasattr(_native.agent, "count_end") else None
                self.refuse(error)

    def end(self, error=None):
        # Frames that an exception has ended are not reported otherwise.
        at = error.__traceback__ if error is not None else None
        while at is not None and self.leave is not None:
            self.leave(at.tb_frame)
            at = at.tb_next
        self.open -= 1
        if self.open == 0:
            if self.stop is not None:
                self.stop()
                self.stop = self.leave = None
                _native.agent.count_end()
            self.running.clear()

    def refuse(self, error):
        """The program runs on, and one line says why nothing is counted."""
        if not self.refused:
            self.refused = True
            print(f"neurogc: profile_memory does not count: {error}", file=sys.stderr)

    def events(self):
        """What happens at a line, and at the end, a pause and the resumption of a call. They run for each line, so that they
        are closures with few names to look up, and no call within a call."""
        mark, running, profiles = _native.agent.count_mark, self.running, self.profiles

        def line(frame, number):
            live, peak = mark()
            now = running.get(frame)
            if len(running) > 1:
                spread(peak)
            if now is None:
                now = running[frame] = _Running(profiles[frame.f_code], live)
                # What this has allocated is not the function's.
                now.base = now.live = now.peak = mark()[0]
            else:
                if peak > now.peak:
                    now.peak = peak
                figures = now.figures
                if figures is not None:
                    figures.change += live - now.live
                    figures.times += 1
                    above = now.peak - now.base
                    if above > figures.peak:
                        figures.peak = above
                now.live = now.peak = live
            now.figures = now.lines.get(number)

        def spread(peak):
            """The most that lived is that of every call that goes on."""
            for other in running.values():
                if peak > other.peak:
                    other.peak = peak

        def pause(frame):
            if frame in running:
                # The figures are booked, and what follows is no line yet.
                line(frame, None)

        def leave(frame):
            pause(frame)
            running.pop(frame, None)

        def resume(frame):
            now = running.get(frame)
            if now is not None:
                live, peak = mark()
                spread(peak)
                now.live = now.peak = live

        return line, leave, pause, resume

    def print(self):
        profiles = [profile for profile in self.profiles.values() if profile.calls]
        if profiles and os.getpid() == self.pid and sys.stderr is not None:
            print("\n" + "\n\n".join(map(str, profiles)), file=sys.stderr)


_profiler = _Profiler()


class _Calls:
    """Writes when calls of a marked function began and ended, for `neurogc run --memory-plot`: at once, so that a crash loses
    nothing. At most 2,000 calls of a process are written."""

    _MOST = 2000
    _begun = 0
    _file = None

    def __init__(self, path, name):
        self.path, self.name = path, name

    @classmethod
    def of_environment(cls, function):
        path = os.environ.get("_NEUROGC_PLOT")
        return cls(path, " ".join(function.__qualname__.split())[:200]) if path else None

    def begin(self):
        cls = type(self)
        if cls._begun >= self._MOST:
            return None
        cls._begun += 1
        number = cls._begun
        self._write(f"+ {os.getpid()} {number} {time.time_ns()} {self.name}\n")
        return number

    def end(self, number):
        self._write(f"- {os.getpid()} {number} {time.time_ns()}\n")

    def _write(self, line):
        try:
            if _Calls._file is None:
                _Calls._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(_Calls._file, line.encode("utf-8", "replace"))
        except OSError:
            # The command has gone, or the disk is full: the plot lacks a call.
            pass


def _monitor(profiler):
    """Watches the marked functions; gives what ends that."""
    monitoring = sys.monitoring
    events = monitoring.events
    tool = next((number for number in (monitoring.PROFILER_ID, 3, 4) if monitoring.get_tool(number) is None), None)
    if tool is None:
        raise RuntimeError("other tools have taken all places in sys.monitoring")
    monitoring.use_tool_id(tool, "neurogc")
    frame = sys._getframe
    line, profiler.leave, pause, resume = profiler.events()
    leave = profiler.leave
    monitoring.register_callback(tool, events.LINE, lambda code, number: line(frame(1), number))
    monitoring.register_callback(tool, events.PY_RETURN, lambda code, offset, value: leave(frame(1)))
    monitoring.register_callback(tool, events.PY_YIELD, lambda code, offset, value: pause(frame(1)))
    monitoring.register_callback(tool, events.PY_RESUME, lambda code, offset: resume(frame(1)))
    watched = events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
    for code in profiler.profiles:
        monitoring.set_local_events(tool, code, watched)

    def stop():
        for code in profiler.profiles:
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)

    return stop


def _trace(profiler):
    """The same by a trace function."""
    if sys.gettrace() is not None:
        raise RuntimeError("another tool traces the program (a debugger, or coverage)")
    suspends = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    line, profiler.leave, pause, resume = profiler.events()
    leave, profiles = profiler.leave, profiler.profiles

    def local(frame, event, argument):
        if event == "line":
            line(frame, frame.f_lineno)
        elif event == "return":
            if frame.f_code.co_flags & suspends:
                pause(frame)
            else:
                leave(frame)
        return local

    def calls(frame, event, argument):
        if frame.f_code not in profiles:
            return None
        resume(frame)
        return local

    sys.settrace(calls)
    return lambda: sys.settrace(None)


def profile_memory(function):
    """Count the memory of each line of this function, exactly. A table goes to stderr when the program ends.

    `function.memory` has the figures at any time. The table says for each line by how much memory grew over all times
    that it ran, calls included, and the most above the beginning of the call. Allocations of other threads are in it as
    well. The agent is started where there is none.
    """
    inner = inspect.unwrap(function)
    if not hasattr(inner, "__code__"):
        raise TypeError(f"profile_memory is for functions, and {function!r} is none")
    profile = _profiler.add(inner)

    plot = _Calls.of_environment(inner)

    def begin():
        profile.calls += 1
        _profiler.begin()
        return plot and plot.begin()

    def end(call, failed):
        _profiler.end(failed)
        if call:
            plot.end(call)

    if inspect.isasyncgenfunction(function):

        async def wrapper(*args, **kwargs):
            call, failed = begin(), None
            try:
                async for value in function(*args, **kwargs):
                    yield value
            except BaseException as error:
                failed = error
                raise
            finally:
                end(call, failed)

    elif inspect.iscoroutinefunction(function):

        async def wrapper(*args, **kwargs):
            call, failed = begin(), None
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                failed = error
                raise
            finally:
                end(call, failed)

    elif inspect.isgeneratorfunction(function):

        def wrapper(*args, **kwargs):
            call, failed = begin(), None
            try:
                return (yield from function(*args, **kwargs))
            except BaseException as error:
                failed = error
                raise
            finally:
                end(call, failed)

    else:

        def wrapper(*args, **kwargs):
            call, failed = begin(), None
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                failed = error
                raise
            finally:
                end(call, failed)

    wrapper = functools.wraps(function)(wrapper)
    wrapper.memory = profile
    return wrapper


def print_whole_program():
    """What `neurogc run --lines` prints at the end: the lines that allocated the most, by sampling."""
    from .memory import sites

    try:
        found = sites()
    except RuntimeError as error:
        print(f"neurogc: --lines has nothing to show: {error}", file=sys.stderr)
        return
    lines = {}
    for site in found:
        if site["file"] is not None:
            key = (site["file"], site["line"], site["function"])
            live, made = lines.get(key, (0, 0))
            lines[key] = (live + site["bytes"], made + site["made_bytes"])
    import linecache

    rows = ["", "memory by line, estimated from sampled allocations", f"{'LIVE':>10} {'ALLOCATED':>10}  LINE"]
    for (file, line, function), (live, made) in sorted(lines.items(), key=lambda entry: -entry[1][1])[:_MOST_LINES]:
        rows.append(f"{size(live):>10} {size(made):>10}  {file}:{line} in {function}".rstrip())
        code = linecache.getline(file, line).strip()
        if code:
            rows.append(f"{'':>21}    {code}")
    print("\n".join(rows), file=sys.stderr)


def load_magic(ipython):
    """Adds `%%memory`, which runs a cell and says what it took."""

    def memory(line, cell):
        """Run the cell and print the most memory that it took at a time, what it left behind, and the lines."""
        _counted.prepare()
        with _counted.Section() as section:
            ipython.run_cell(cell)
        figures = section.figures
        rows = [f"peak {size(figures['peak'])}, {size(figures['live'])} left behind, {figures['made_blocks']:,} blocks allocated"]
        rows += _counted.site_lines(_counted.by_stack(figures["sites"], "at_peak", "blocks_at_peak"))
        print("\n".join(rows + _counted.remarks(figures)))

    ipython.register_magic_function(memory, magic_kind="cell", magic_name="memory")

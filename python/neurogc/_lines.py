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

    def __init__(self, change=0, peak=0, times=0):
        self.change, self.peak, self.times = change, peak, times


class FunctionProfile:
    """What a marked function did with memory: `calls`, `peak` in bytes, and `lines`, a dict of line numbers to figures."""

    def __init__(self, function):
        code = function.__code__
        self.file, self.name, self.first_line = code.co_filename, function.__qualname__, code.co_firstlineno
        self.calls = 0
        self.numbers = sorted({line for _, _, line in code.co_lines() if line})
        # The agent's book, and the number of the function in it.
        self.book = self.place = None

    @property
    def lines(self):
        found = {number: LineFigures() for number in self.numbers}
        if self.book is not None:
            for number, *figures in self.book.figures(self.place):
                found[number] = LineFigures(*figures)
        return found

    @property
    def peak(self):
        return max((line.peak for line in self.lines.values()), default=0)

    def __str__(self):
        import linecache

        lines = self.lines
        peak = max((line.peak for line in lines.values()), default=0)
        head = f"{self.file}:{self.first_line} {self.name}(): {self.calls} call{'s' * (self.calls != 1)}, peak {size(peak)}"
        rows = [head, f"{'LINE':>6} {'CHANGE':>10} {'PEAK':>10} {'TIMES':>8}  CODE"]
        for number in range(self.first_line, max(lines, default=self.first_line) + 1):
            line, code = lines.get(number), linecache.getline(self.file, number).rstrip()
            if line is not None and line.times:
                sign = "+" if line.change > 0 else ""
                rows.append(f"{number:>6} {sign + size(line.change):>10} {size(line.peak):>10} {line.times:>8,}  {code}".rstrip())
            else:
                rows.append(f"{number:>6} {'':>10} {'':>10} {'':>8}  {code}".rstrip())
        return "\n".join(rows)


class _Profiler:
    """Counts the lines of marked functions while one of them runs."""

    def __init__(self):
        self.profiles = {}
        self.book = None
        self.open = 0
        self.stop = None
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
                self.open_book()
                _native.agent.count_begin(False)
                self.stop = _monitor(self) if sys.version_info >= (3, 12) else _trace(self)
            except RuntimeError as error:
                _native.agent.count_end() if hasattr(_native.agent, "count_end") else None
                self.refuse(error)

    def end(self, error=None):
        # Frames that an exception has ended are not reported otherwise.
        at = error.__traceback__ if error is not None else None
        while at is not None and self.stop is not None:
            self.book.leave(at.tb_frame)
            at = at.tb_next
        self.open -= 1
        if self.open == 0 and self.stop is not None:
            self.stop()
            self.stop = None
            _native.agent.count_end()
            self.book.clear()

    def open_book(self):
        """Has the agent book the lines of all functions that were marked."""
        self.book = self.book or _native.agent.LineBook()
        for code, profile in self.profiles.items():
            if profile.book is None:
                profile.book, profile.place = self.book, self.book.add(code, profile.numbers)

    def refuse(self, error):
        """The program runs on, and one line says why nothing is counted."""
        if not self.refused:
            self.refused = True
            print(f"neurogc: profile_memory does not count: {error}", file=sys.stderr)

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
    book = profiler.book
    # These are native functions: a line costs little more than the event.
    monitoring.register_callback(tool, events.LINE, book.line)
    monitoring.register_callback(tool, events.PY_RETURN, book.returned)
    monitoring.register_callback(tool, events.PY_YIELD, book.yielded)
    monitoring.register_callback(tool, events.PY_RESUME, book.resumed)
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
    book, profiles = profiler.book, profiler.profiles

    def local(frame, event, argument):
        if event == "line":
            book.line_in(frame, frame.f_code, frame.f_lineno)
        elif event == "return":
            if frame.f_code.co_flags & suspends:
                book.pause(frame)
            else:
                book.leave(frame)
        return local

    def calls(frame, event, argument):
        if frame.f_code not in profiles:
            return None
        book.resume(frame)
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

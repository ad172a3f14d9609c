"""Which line of Python runs when a tool finds a bug of native code. `neurogc check` has this run at the start of a program.

Under Valgrind, the number of errors so far is asked for whenever a function of an extension has returned. Where it has
grown, the Python stack is written into Valgrind's report, behind the errors. Under AddressSanitizer, which ends the
program, faulthandler writes the stack.
"""

import os
import sys

_DEPTH = 20


def watch(tool, folder):
    """Begins to watch."""
    if tool == "asan":
        _dump_into(folder)
    elif tool == "valgrind":
        requests = _Requests.find()
        if requests is not None:
            _Lines(requests).begin()


def _dump_into(folder):
    import faulthandler

    def begin():
        # The file stays open as long as the process lives.
        file = os.open(os.path.join(folder, "python.%d" % os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        faulthandler.enable(file, all_threads=False)

    begin()
    os.register_at_fork(after_in_child=begin)


class _Requests:
    """Requests to Valgrind: instructions that do nothing on a real processor."""

    # mov rax, rdi; xor edx, edx; rol rdi by 3, 13, 61 and 51; xchg rbx, rbx; mov rax, rdx; ret
    CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
    COUNT_ERRORS = 0x1201
    PRINT = 0x1403

    def __init__(self, ctypes, function, memory):
        self._ctypes, self._function, self._memory = ctypes, function, memory
        self._count = (ctypes.c_ulong * 6)(self.COUNT_ERRORS)
        self._count_at = ctypes.addressof(self._count)

    @classmethod
    def find(cls):
        """None where the instructions are not known."""
        if os.uname().machine != "x86_64" or sys.maxsize < 2**32:
            return None
        try:
            import ctypes
            import mmap

            memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            memory.write(cls.CODE)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            return cls(ctypes, ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(address), memory)
        except (ImportError, OSError, ValueError):
            return None

    def errors(self):
        """How many errors there are so far."""
        return self._function(self._count_at)

    def say(self, text):
        """Writes a text into the report."""
        ctypes = self._ctypes
        # It is a format of printf, and has no arguments.
        words = ctypes.create_string_buffer(text.replace("%", "%%").encode("utf-8", "replace"))
        nothing = (ctypes.c_ulong * 3)()
        request = (ctypes.c_ulong * 6)(self.PRINT, ctypes.addressof(words), ctypes.addressof(nothing))
        self._function(ctypes.addressof(request))


class _Lines:
    """Looks at the number of errors after each call of an extension."""

    def __init__(self, requests):
        self._requests = requests
        self._known = requests.errors()
        self._trusted = {"builtins", "neurogc_check", *sys.stdlib_module_names}

    def begin(self):
        if sys.version_info >= (3, 12) and self._monitor():
            return
        import threading

        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _monitor(self):
        monitoring = sys.monitoring
        # The number that is meant for profilers may be another tool's.
        for tool in (monitoring.PROFILER_ID, 3, 4):
            if monitoring.get_tool(tool) is None:
                break
        else:
            return False
        monitoring.use_tool_id(tool, "neurogc check")
        events = monitoring.events

        def call(code, offset, function, argument):
            # A place that calls the interpreter's own functions is not looked at again.
            return None if self._is_foreign(function) else monitoring.DISABLE

        def returned(code, offset, function, argument):
            self._look(sys._getframe(1))

        monitoring.register_callback(tool, events.CALL, call)
        monitoring.register_callback(tool, events.C_RETURN, returned)
        monitoring.register_callback(tool, events.C_RAISE, returned)
        monitoring.set_events(tool, events.CALL)
        return True

    def _profile(self, frame, event, argument):
        if event in ("c_return", "c_exception") and self._is_foreign(argument):
            self._look(frame)

    def _is_foreign(self, function):
        """Whether a function is of a module that does not come with the interpreter."""
        module = getattr(function, "__module__", None)
        if not isinstance(module, str):
            owner = getattr(function, "__self__", None)
            module = getattr(owner if isinstance(owner, type) else type(owner), "__module__", None)
        return isinstance(module, str) and module.partition(".")[0] not in self._trusted

    def _look(self, frame):
        errors = self._requests.errors()
        if errors == self._known:
            return
        self._known = errors
        parts = []
        while frame is not None and len(parts) < _DEPTH:
            parts.append("%s|%d|%s" % (frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
            frame = frame.f_back
        self._requests.say("neurogc-python " + "\t".join(parts) + "\t")

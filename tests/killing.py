"""Ends one thread of another process for real, as a fault would: by ptrace it is made to call `exit` where it sleeps.
Nothing is unwound and no destructor runs: it ends without a message.
"""

import ctypes
import os
import platform
import re
import time
from pathlib import Path

PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_DETACH = 12, 13, 17
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WAIT_FOR_THREADS = 0x40000000
SYS_EXIT, SYS_FUTEX, SYS_PPOLL = 60, 202, 271
SYSCALL = b"\x0f\x05"

# The places of registers among the 27 words of `user_regs_struct`.
RAX, RDI, ORIG_RAX, RIP = 10, 14, 15, 16

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class NotPermitted(Exception):
    """This machine does not let one process trace another."""


def thread_named(pid, name):
    """The id of a process's thread with this name, or nothing."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == name:
                return int(task.name)
        except (FileNotFoundError, ProcessLookupError):
            pass  # It has just ended.
    return None


def kill_thread(pid, name):
    """Ends the thread of this name while it sleeps, and nothing else of the process, which must be our child."""
    if platform.machine() != "x86_64":
        raise NotPermitted(f"registers of {platform.machine()} are not known here")
    thread = thread_named(pid, name)
    while not _exits(pid, thread):
        # It was about to do something, and might hold a lock that others need.
        time.sleep(0.001)
    while os.path.exists(f"/proc/{pid}/task/{thread}"):
        time.sleep(0.001)


def _exits(pid, thread):
    """Makes a thread that sleeps call `exit`; one that does not is let go."""
    _trace(PTRACE_SEIZE, thread)
    _trace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WAIT_FOR_THREADS)
    words = (ctypes.c_ulonglong * 27)()
    _trace(PTRACE_GETREGS, thread, 0, ctypes.addressof(words))
    sleeps = words[ORIG_RAX] in (SYS_FUTEX, SYS_PPOLL)
    if sleeps:
        words[RAX], words[RDI], words[RIP] = SYS_EXIT, 0, _a_syscall(pid)
        # No system call that would be begun again.
        words[ORIG_RAX] = 2**64 - 1
        _trace(PTRACE_SETREGS, thread, 0, ctypes.addressof(words))
    _trace(PTRACE_DETACH, thread)
    return sleeps


def _a_syscall(pid):
    """The address of an instruction that enters the kernel: there is one in what the kernel itself puts there."""
    span = re.search(r"^(\w+)-(\w+) r-xp .*\[vdso\]$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    first, last = (int(end, 16) for end in span.groups())
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(first)
        code = memory.read(last - first)
    return first + code.index(SYSCALL)


def _trace(request, thread, address=0, data=0):
    if _libc.ptrace(request, thread, address, data) == -1:
        error = ctypes.get_errno()
        raise NotPermitted(f"ptrace: {os.strerror(error)}")

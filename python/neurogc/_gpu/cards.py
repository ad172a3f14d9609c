"""The card as a whole: what is free, which other processes are on it, and what is not PyTorch's.

Processes come from the driver's library (NVML), which is loaded where it is installed; nothing depends on it.
"""

import os

from . import allocator

# The namespace of process numbers in which the kernel has started.
_FIRST_NAMESPACE = "pid:[4026531836]"

# The library, once it was loaded and made ready; False where that failed. What it knows of cards, by their numbers.
_library = None
_handles = {}


def of(device, reserved):
    """What is known of a card, by the names of `wire::gpu::GpuHeld`."""
    found = {"name": allocator.name(device)}
    card = allocator.card(device)
    if card is None:
        return found
    total, free = card
    found.update(card_bytes=total, card_free_bytes=free)
    processes = _processes(device)
    if processes is None:
        return found
    own, rest = _parted(processes, os.getpid(), reserved, _is_contained())
    found["others"] = [{"pid": pid, "bytes": used} for pid, used in sorted(rest.items())]
    if own is None and not rest:
        # In a container the driver may not know this process at all.
        own = total - free
    if own is not None:
        found["not_pytorch"] = max(own - reserved, 0)
    return found


def others(device, reserved):
    """How many other processes are on a card, and their bytes; None where the driver does not tell."""
    processes = _processes(device)
    if processes is None:
        return None
    own, rest = _parted(processes, os.getpid(), reserved, _is_contained())
    if own is None and not rest:
        # Not even this one: it would not list others either.
        return None
    return len(rest), sum(rest.values())


def _parted(processes, pid, reserved, is_contained):
    """What this process has on a card, None where that is not known; and the other processes.

    In a container the driver may list processes by the numbers that they have outside. Then this one is the one that has as much as
    PyTorch has reserved, or more; of several, the one with the least.
    """
    rest = dict(processes)
    if pid in rest and (not is_contained or rest[pid] >= reserved):
        return rest.pop(pid), rest
    fitting = [(used, other) for other, used in rest.items() if used >= reserved]
    if is_contained and fitting:
        used, other = min(fitting)
        del rest[other]
        return used, rest
    return None, rest


def _is_contained():
    """Whether this process has another number outside."""
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE
    except OSError:
        return False


def _processes(device):
    """The memory of each process on a card, or None where the driver does not tell."""
    try:
        return _ask(str(allocator.uuid(device)))
    except Exception:
        return None


def _ask(uuid):
    import ctypes

    class Process(ctypes.Structure):
        _fields_ = [
            ("pid", ctypes.c_uint),
            ("used", ctypes.c_ulonglong),
            ("instance", ctypes.c_uint),
            ("compute", ctypes.c_uint),
        ]

    library = _loaded()

    def call(name, *arguments):
        status = getattr(library, name)(*arguments)
        if status:
            raise OSError(f"{name}: {status}")

    handle = _handles.get(uuid)
    if handle is None:
        handle = ctypes.c_void_p()
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(handle))
        _handles[uuid] = handle
    count = ctypes.c_uint(128)
    rows = (Process * count.value)()
    call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), rows)
    unknown = ctypes.c_ulonglong(-1).value
    return {row.pid: row.used for row in rows[: count.value] if row.used != unknown}


def _loaded():
    """The library, ready for questions. It stays so: to make it ready takes long."""
    global _library
    if _library is None:
        import ctypes

        _library = False
        library = ctypes.CDLL("libnvidia-ml.so.1")
        status = library.nvmlInit_v2()
        if status:
            raise OSError(f"nvmlInit_v2: {status}")
        _library = library
    if not _library:
        raise OSError("NVML is not there")
    return _library

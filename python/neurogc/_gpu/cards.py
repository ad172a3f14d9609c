"""The card as a whole: what is free, which other processes are on it, and what is not PyTorch's.

Processes come from the driver's library (NVML), which is loaded where it is installed; nothing depends on it.
"""

import os

from . import allocator


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
    own = processes.pop(os.getpid(), None)
    found["others"] = [{"pid": pid, "bytes": used} for pid, used in sorted(processes.items())]
    if own is None:
        # In a container the driver may know this process by another number, or not at all.
        own = total - free - sum(processes.values()) if not processes else None
    if own is not None:
        found["not_pytorch"] = max(own - reserved, 0)
    return found


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

    library = ctypes.CDLL("libnvidia-ml.so.1")

    def call(name, *arguments):
        status = getattr(library, name)(*arguments)
        if status:
            raise OSError(f"{name}: {status}")

    call("nvmlInit_v2")
    try:
        handle = ctypes.c_void_p()
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(handle))
        count = ctypes.c_uint(128)
        rows = (Process * count.value)()
        call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), rows)
        unknown = ctypes.c_ulonglong(-1).value
        return {row.pid: row.used for row in rows[: count.value] if row.used != unknown}
    finally:
        library.nvmlShutdown()

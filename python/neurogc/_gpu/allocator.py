"""What is asked of PyTorch: the only module here that knows its names."""

import os
import sys
from time import perf_counter

# The kind of device whose tensors are counted. AMD's are called so, too.
KIND = "cuda"


def _torch():
    return sys.modules["torch"]


def is_ready():
    """Whether the program uses a GPU, and this process may: a forked child may not."""
    cuda = sys.modules.get("torch.cuda")
    return cuda is not None and cuda.is_initialized()


def devices():
    """The numbers of the devices."""
    return range(_torch()._C._cuda_getDeviceCount())


def current():
    """The number of the device that the calling thread uses."""
    return _torch().cuda.current_device()


def figures(device):
    """Allocated, reserved, active and inactive bytes, blocks, peak, retries and errors of a device.

    `torch.cuda.memory_stats` would give the same, and take ten times as long.
    """
    stats = _torch()._C._cuda_memoryStats(device)
    allocated = stats["allocated_bytes"]["all"]
    return (
        allocated["current"],
        stats["reserved_bytes"]["all"]["current"],
        stats["active_bytes"]["all"]["current"],
        stats["inactive_split_bytes"]["all"]["current"],
        stats["allocation"]["all"]["current"],
        allocated["peak"],
        stats["num_alloc_retries"],
        stats["num_ooms"],
    )


def is_capturing():
    """Whether a CUDA graph is being recorded: nothing may be asked of the driver then."""
    capturing = getattr(_torch()._C, "_cuda_isCurrentStreamCapturing", None)
    return capturing is not None and capturing()


def has_history():
    """Whether the program has the allocator record events, with their stacks; None where PyTorch does not tell, as 2.1."""
    enabled = getattr(_torch()._C, "_cuda_isHistoryEnabled", None)
    return enabled() if enabled is not None else None


def card(device):
    """The memory of the whole card and what is free of it; None while a CUDA graph is being recorded."""
    if is_capturing():
        return None
    free, total = _torch().cuda.mem_get_info(device)
    return total, free


def name(device):
    """What the device is called."""
    return _torch().cuda.get_device_name(device)


def uuid(device):
    """The number by which the driver knows the device, or None."""
    return getattr(_torch().cuda.get_device_properties(device), "uuid", None)


def pinned():
    """Bytes of pinned memory that the program uses; None where PyTorch does not tell."""
    stats = getattr(_torch()._C, "_cuda_hostMemoryStats", None)
    if stats is None:
        return None
    told = stats()
    for figure in ("active_bytes", "allocated_bytes"):
        parts = told.get(figure)
        if isinstance(parts, dict) and isinstance(parts.get("current"), int):
            return parts["current"]
    return None


def limit(device):
    """What the program may use of the card, in bytes: a share that it has set, or all."""
    share = getattr(_torch()._C, "_cuda_getMemoryFraction", None)
    total = _torch().cuda.get_device_properties(device).total_memory
    return int(total * min(share(device), 1.0)) if share is not None else total


class Unasked(Exception):
    """The allocator was not asked for its blocks, as that would take too long."""


def segments(within=None):
    """What the allocator has taken from the devices, with the blocks in it; no history is needed for that.

    It is one call, which cannot be ended: where it is likely to take more than so many seconds, it is not made.
    """
    global _pace
    is_recorded = has_history()
    if is_recorded and not _leaves_out_traces():
        raise Unasked("the program records the allocator's history, all of which would come with the blocks")
    blocks = _blocks()
    if within is not None and blocks * _pace > within:
        raise Unasked(f"{blocks} blocks take too long to read")
    began = perf_counter()
    snapshot = _torch()._C._cuda_memorySnapshot
    if is_recorded:
        # As PyTorch's own function asks: of all pools, without what was recorded.
        found = snapshot((0, 0, False))
    else:
        try:
            found = snapshot(None)
        except TypeError:
            # Older versions have no argument.
            found = snapshot()
    _pace = (perf_counter() - began) / max(blocks, _FEW)
    return found["segments"]


def _blocks():
    """How many blocks are in use; 0 where the allocator does not tell."""
    try:
        return sum(figures(device)[4] for device in devices())
    except Exception:
        return 0


# How long the allocator takes to give one block, in seconds: as it was the last time. Fewer blocks than these say nothing of it.
_pace = 2e-6
_FEW = 256


def _leaves_out_traces():
    """Whether the allocator gives its blocks without its history: where PyTorch's own function can ask so."""
    function = getattr(_torch().cuda, "memory_snapshot", None)
    return "include_traces" in getattr(getattr(function, "__code__", None), "co_varnames", ())


def workspace_sizes():
    """The sizes of cuBLAS's workspaces, of which PyTorch makes one for each thread and stream that multiplies: those of its
    defaults, and what the environment sets (`:SIZE:COUNT` in KiB, and KiB).
    """
    sizes = {4096 * 8 << 10, 4096 * 2 + 16 * 8 << 10}
    parts = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").strip(":").split(":")
    if len(parts) >= 2 and all(part.isdigit() for part in parts):
        sizes.add(sum(int(size) * int(count) for size, count in zip(parts[::2], parts[1::2], strict=False)) << 10)
    own = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    if own.isdigit():
        sizes.add(int(own) << 10)
    return sizes


def observe_ooms(observer):
    """Has `observer(device, asked, allocated, free)` called before an error "CUDA out of memory" is raised."""
    _torch()._C._cuda_attach_out_of_memory_observer(observer)


def plainly():
    """A context in which functions of tensors do what they say, whatever subclasses and modes of the program there are."""
    return _torch()._C.DisableTorchFunction()


def is_ours(tensor):
    """Whether a tensor is on a GPU."""
    return tensor.device.type == KIND


def address(tensor):
    """Where the memory of a tensor begins, or 0."""
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:
        # It has no memory: a fake one, or one that stands for others.
        return 0


def is_wide(tensor):
    """Whether a tensor consists of numbers of 32 bits with a fraction."""
    return tensor.dtype is _torch().float32


def saved_as_they_are():
    """Whether a node tells what it has saved without calling hooks of the program."""
    return hasattr(_autograd("SavedTensor"), "data")


def saved_are_plain():
    """Whether no hook of the program stands between a node and what it has saved, as far as is known."""
    return _saved_are_plain


def watch_saved():
    """PyTorch has been loaded: notes from now on whether the program sets hooks for what nodes save, where they alone would tell.

    PyTorch has no question for that. Its functions are replaced by ones that note it and pass on, in older versions only.
    """
    global _saved_are_plain
    kind, push = _autograd("SavedTensor"), _autograd("_push_saved_tensors_default_hooks")
    if push is None or saved_as_they_are() or _saved_are_plain or is_ready():
        # Graphs that were built before this may have any hooks.
        return

    def noting(function):
        def noted(*arguments):
            global _saved_are_plain
            _saved_are_plain = False
            return function(*arguments)

        return noted

    _torch()._C._autograd._push_saved_tensors_default_hooks = noting(push)
    kind.register_hooks = noting(kind.register_hooks)
    _saved_are_plain = True


_saved_are_plain = False


def _autograd(name):
    return getattr(getattr(_torch()._C, "_autograd", None), name, None)


def classes():
    """The classes of tensors, modules, optimizers, parameters and datasets."""
    torch = _torch()
    data = sys.modules.get("torch.utils.data")
    optimizers = sys.modules.get("torch.optim.optimizer")
    return (
        torch.Tensor,
        torch.nn.Module,
        getattr(optimizers, "Optimizer", ()),
        torch.nn.Parameter,
        getattr(data, "Dataset", ()),
    )


def world_size():
    """How many processes train together."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_world_size()
    except Exception:
        pass
    return 1

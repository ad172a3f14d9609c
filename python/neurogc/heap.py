"""What the heap consists of: dumps that a clone of the process writes, and counts by type."""

import contextlib
import os

from . import _native

__all__ = ["count", "dump"]

# So much of a dump is kept in memory at most until the program continues without the clone.
_MEMORY = 1 << 30
_PIECE = 1 << 20


def dump(path, *, text=True):
    """Write all objects to a file, which `neurogc heap show` reads, and return figures about it as a dict.

    The program stands still only while the process is cloned; this thread waits for the file without the GIL. Before that,
    a thread of the agent may put small pages of memory together, beside the program. With `text=False`, values of strings and integers are left out, except for names. Only the user can read the file.
    Raises `RuntimeError` where there can be no dump, with the reason.
    """
    return _write(path, text)


def _write(path, text, urgent=False):
    """The same. One that is urgent is tried also where memory is short, and takes none for the file."""
    path = os.fspath(path)
    part = path + (b".part" if isinstance(path, bytes) else ".part")
    # Never into a file that was there before: in a shared folder it may be another user's.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part)
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # A disk may be slow, and the clone must not wait for it: every page that the program writes to meanwhile is
        # copied.
        memory = None if urgent else _memory_file()
        try:
            limit = min(_MEMORY, _native.agent.memory_room() // 4) if memory is not None else 0
            first = file if memory is None else memory
            figures = _native.agent.heap_dump(first, limit, file, bool(text), urgent)
            if memory is not None:
                _copy(memory, file, min(limit, figures["bytes"]))
        finally:
            if memory is not None:
                os.close(memory)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    finally:
        os.close(file)
    return figures


def count():
    """Count all objects by type: a dict of type names to dicts with `count` and `bytes`, the most frequent first.

    A clone of the process counts, as for `dump`. Types with the same name are one entry.
    """
    found = {}
    for name, objects, size in _native.agent.heap_count():
        entry = found.setdefault(name, {"count": 0, "bytes": 0})
        entry["count"] += objects
        entry["bytes"] += size
    return found


def _memory_file():
    """A file in memory, or None where the kernel has none."""
    try:
        return os.memfd_create("neurogc-dump", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None


def _copy(source, target, length):
    """Copy the first bytes of one file to the beginning of another."""
    done = 0
    while done < length:
        piece = os.pread(source, min(_PIECE, length - done), done)
        if not piece:
            raise OSError("the memory file is shorter than it was")
        at = 0
        while at < len(piece):
            at += os.pwrite(target, piece[at:], done + at)
        done += len(piece)

"""Reports on errors "CUDA out of memory": why there was no memory, and who held it.

PyTorch calls the observer before it raises the error. The observer changes nothing: the error is the program's own. It takes
at most two seconds, for all its parts together, and where errors follow each other quickly they are only counted.
"""

import json
import os
import sys
import threading
from time import monotonic

from .._limits import size
from .._native import agent
from . import allocator, holders, steps
from .deadline import Deadline

# How long the look at the holders may take, how long that and the look for the paths of new blocks, and how many times as long
# there is no other report.
_SECONDS = 1.4
_ALL_SECONDS = 1.6
_RARITY = 50

_HOLDERS = 12
_BLOCKS = 8
_STACK = 8
_THREADS = 3

_is_attached = False
_quiet_until = 0.0
_was_told = False


def watch():
    """Attaches the observer, once: PyTorch has no way to take it out."""
    global _is_attached
    if not _is_attached:
        allocator.observe_ooms(_observed)
        _is_attached = True


def _observed(device, asked, limit, free):
    global _quiet_until
    try:
        count, growth = agent.gpu_oom()
        steps.peaks(device).failed = True
        if count == 0 or monotonic() < _quiet_until:
            return
        began = monotonic()
        report = _report(device, asked, limit, free, count, growth)
        _write(report)
        _quiet_until = monotonic() + _RARITY * (monotonic() - began)
    except Exception as error:
        # An error here would take the place of the program's own.
        try:
            agent.degrade(f"no report on CUDA out of memory: {type(error).__name__}: {error}"[:300])
        except Exception:
            pass


def _report(device, asked, limit, free, count, growth):
    deadline = Deadline(_ALL_SECONDS)
    stack, others = _stacks()
    allocated, reserved, *_ = allocator.figures(device)
    room = max(min(free, limit - reserved), 0)
    report = {
        "device": device,
        "name": allocator.name(device),
        "count": count,
        "asked_bytes": asked,
        "limit_bytes": limit,
        "card_free_bytes": free,
        "room_bytes": room,
        "pieces_bytes": reserved - allocated,
        "cause": "fragmentation" if room + reserved - allocated >= asked else "genuine",
        "steps": steps.peaks(device).report(),
        "growth": growth[:5],
        "stack": stack,
        "other_stacks": others,
    }
    wide = 0
    with allocator.plainly():
        try:
            look = holders.Look(_SECONDS)
        except allocator.Unasked as reason:
            report |= {"left_out": str(reason), "held": {}, "holders": [], "largest": [], "since": None, "complete": False}
        else:
            largest = [{"bytes": taken, "use": use} for taken, of, use in look.blocks.largest(4 * _BLOCKS) if of == device]
            report |= {
                "left_out": "",
                "held": look.blocks.devices().get(device, {}),
                "holders": [holder.row() for holder in look.holders[:_HOLDERS]],
                "largest": largest[:_BLOCKS],
                "since": _since(look, device, deadline),
                "complete": look.complete,
            }
            wide = look.graphs.wide
            del look
    report["held"] |= {"allocated_bytes": allocated, "reserved_bytes": reserved}
    report["remedies"] = remedies(report, wide, allocator.world_size())
    return report


def _since(look, device, deadline):
    """The largest blocks that were not there at the end of the latest step for which blocks are known; None before the first."""
    kept, ended = steps.kept()
    if kept is None:
        return None
    rows = look.blocks.since(kept.sizes, kept.least, device)
    wanted, paths = {number for _, number in rows[:_BLOCKS]}, {}
    for holder in look.holders:
        for tensor in deadline.rows(holder.tensors):
            number = look.blocks.at(allocator.address(tensor))
            if number in wanted:
                paths.setdefault(number, holder.path)
        if len(paths) == len(wanted) or deadline.is_over():
            break
    use = look.blocks.claimed.get
    return {
        "step": kept.step,
        "steps": ended,
        "blocks": len(rows),
        "bytes": sum(taken for taken, _ in rows),
        "least_bytes": kept.least,
        "largest": [
            {"bytes": taken, "use": use(number, "unseen"), "path": paths.get(number, "")} for taken, number in rows[:_BLOCKS]
        ],
    }


def _stacks():
    """The lines of the program that asked, the innermost first; and those of threads that may have made it ask.

    The backward pass runs in threads of autograd, which have no lines of the program: the thread that called it waits.
    """
    asked = _lines(sys._getframe())
    own, main = threading.get_ident(), threading.main_thread().ident
    if own == main:
        return asked, []
    waiting = []
    for ident, frame in list(sys._current_frames().items()):
        if ident != own and (ident == main or _waits_for_autograd(frame)):
            waiting.append({"thread": "main thread" if ident == main else f"thread {ident}", "lines": _lines(frame)})
    return asked, sorted(waiting, key=lambda row: row["thread"] != "main thread")[:_THREADS]


def _waits_for_autograd(frame):
    return str(frame.f_globals.get("__name__")).startswith("torch.autograd")


def _lines(frame):
    lines, own = [], __file__.rpartition("/")[0]
    while frame is not None and len(lines) < _STACK:
        code = frame.f_code
        if not code.co_filename.startswith(own):
            lines.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return lines


def remedies(report, wide, processes):
    """What would have given the memory that was asked for, by the figures of this process only."""
    asked, room, pieces, held = report["asked_bytes"], report["room_bytes"], report["pieces_bytes"], report["held"]
    if report["cause"] == "fragmentation":
        return [
            f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {size(pieces)} is free in pieces, {size(asked)} was asked for",
            "Few different sizes of batches and sequences (padding, buckets); torch.cuda.empty_cache() once after a phase "
            "with other sizes",
        ]
    short = asked - room
    found = []
    activations = held.get("activations", 0) + held.get("other", 0)
    need, stays = report["steps"]["need_bytes"], report["steps"]["stays_bytes"]
    space = held["allocated_bytes"] + room - stays
    if need > 0:
        share = int(100 * space / need)
        if share > 0:
            found.append(
                f"A batch of at most {share} % of that of earlier steps: one of them took {size(need)} at its peak beside what "
                f"stays ({size(stays)}), and {size(space)} is there for it"
            )
    elif activations > short:
        share = int(100 * (activations + room) / (activations + asked))
        found.append(
            f"A batch of at most {share} % of this one, and of less where the step had more to come (none has ended): "
            f"activations and other tensors take {size(activations)}, and {size(short)} was missing for this allocation"
        )
    saved = held.get("activations", 0)
    if saved >= short:
        found.append(f"Activation checkpointing: frees up to {size(saved)} that autograd has saved")
    if wide // 2 >= short:
        found.append(f"bf16 autocast: half of the {size(wide)} of 32-bit activations")
    shared = held.get("optimizer", 0) + held.get("gradients", 0)
    if processes > 1 and shared - shared // processes >= short:
        found.append(
            f"ZeRO or FSDP over {processes} processes: frees {size(shared - shared // processes)} of gradients and "
            "optimizer state"
        )
    kept = [row for row in report["holders"] if row["path"] and row["bytes"] + row["graph_bytes"] >= short]
    if kept:
        taken = kept[0]["bytes"] + kept[0]["graph_bytes"]
        found.append(f"Letting go of {kept[0]['path']}: frees {size(taken)}")
    return found or [f"Nothing that this process holds beside its model gives {size(short)}: a larger card, or sharding"]


def written(report):
    """The report as text."""
    asked, room, pieces = (size(report[name]) for name in ("asked_bytes", "room_bytes", "pieces_bytes"))
    held = report["held"]
    lines = [f"CUDA out of memory on GPU {report['device']} ({report['name']}): {asked} was asked for."]
    if report["cause"] == "fragmentation":
        lines.append(f"Cause: fragmentation. {room} could be taken from the card, and {pieces} is free in pieces, none large enough.")
    else:
        lines.append(f"Cause: the memory is in use. {room} could be taken from the card, and {pieces} is free in pieces.")
    lines.append(f"It is error number {report['count']} of this process.")
    if report["left_out"]:
        lines += ["", f"Who held the memory was not looked at: {report['left_out']}.", f"In use: {size(held['allocated_bytes'])}."]
        return "\n".join([*lines, *_sections(report)]) + "\n"
    if not report["complete"]:
        lines.append("There was no time to look at everything: some of what follows is too low, or not there.")
    lines += ["", "What the memory is used for"]
    for name in ("parameters", "gradients", "optimizer", "buffers", "activations", "other", "workspaces", "unseen", "cached", "fragmented"):
        lines.append(f"  {name:12} {size(held.get(name, 0)):>10}")
    lines += ["", "Who holds tensors that are no part of a model or an optimizer"]
    for row in report["holders"]:
        graph = f", its graph {size(row['graph_bytes'])}" if row["graph_bytes"] else ""
        lines.append(f"  {size(row['bytes']):>10}  {row['tensors']} x {row['path'] or '(not held by Python code)'}{graph}")
    return "\n".join([*lines, *_sections(report)]) + "\n"


def _sections(report):
    """What the report has besides holders, by title."""
    since, lines = report["since"], []
    for title, rows in (
        ("Recent steps", [_step(row) for row in report["steps"]["recent"]]),
        ("Growth so far", report["growth"]),
        *(((_since_title(since), _since_rows(since)),) if since else ()),
        ("Largest blocks", [f"{size(row['bytes'])} {row['use']}" for row in report["largest"]]),
        ("What would have fitted", report["remedies"]),
        ("Asked by", report["stack"]),
        *((f"Meanwhile in the {row['thread']}", row["lines"]) for row in report["other_stacks"]),
    ):
        if rows:
            lines += ["", title, *(f"  {row}" for row in rows)]
    return lines


def _step(row):
    return f"step {row['step']}: {size(row['allocated_bytes'])} at its end, at most {size(row['peak_bytes'])} so far"


def _since_title(since):
    """What the section on new blocks says: since which step, and how many."""
    ago = since["steps"] - since["step"]
    earlier = f" ({ago} before the last)" if ago else ""
    return (
        f"Allocated since the end of step {since['step']}{earlier}: {since['blocks']} blocks of at least "
        f"{size(since['least_bytes'])}, together {size(since['bytes'])}"
    )


def _since_rows(since):
    return [f"{size(row['bytes'])} {row['use']} {row['path']}".rstrip() for row in since["largest"]]


def _write(report):
    """To two files, which replace those of an earlier error; and one line on stderr, for the first."""
    global _was_told
    folder = os.path.abspath(agent.gpu_report_folder() or ".")
    path = os.path.join(folder, f"neurogc-oom-{os.getpid()}")
    for end, text in ((".json", json.dumps(report, indent=1)), (".txt", written(report))):
        with open(path + end + ".part", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + end + ".part", path + end)
    agent.gpu_oom_reported(path + ".txt")
    if not _was_told and sys.stderr is not None:
        _was_told = True
        print(f"neurogc: CUDA out of memory ({report['cause']}): {path}.txt", file=sys.stderr)

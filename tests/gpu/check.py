"""Memory of GPUs on a real one: attribution, leak patterns, healthy loops, reports on errors, and what the watch costs.

    python tests/gpu/check.py [--out FOLDER] [PART…]

It needs PyTorch with CUDA and the built agent (`make build`), and takes some minutes on an H200. PART is one of models, card, leaks,
healthy, verdicts, frameworks, ooms, files, cost; all if none is named. It prints a report, writes it to FOLDER (bench/results if it is not named) as
gpu.json and gpu.md, and fails if something is not as it should be. A part that fails does not end the others. On a machine without a
GPU, or without PyTorch, it says so.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cost import cost, role_pairs, role_steps
from processes import ROOT, at_once, environment, observed

STEPS = 200
OOMS = 10
LIMIT = 2 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    arguments = parser.parse_args()
    if arguments.role:
        return ROLES[arguments.role[0]](*arguments.role[1:])
    try:
        import torch
    except ImportError as error:
        print(f"There is no PyTorch here ({error}): nothing was tested.")
        return 0
    if not torch.cuda.is_available():
        print("There is no GPU here, or PyTorch cannot use it: nothing was tested.")
        return 0
    report = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }
    began = time.monotonic()
    wrong = []
    for name in arguments.parts or PARTS:
        part_began = time.monotonic()
        try:
            report[name] = PARTS[name]()
        except Exception as error:
            report[name] = [{"name": "the part itself", "ok": False, "error": f"{type(error).__name__}: {error}"[-1500:]}]
        wrong += [f"{name}: {row['name']}" for row in report[name] if not row["ok"]]
        print(f"{name}: {time.monotonic() - part_began:.0f} s", flush=True)
    report["seconds"] = round(time.monotonic() - began)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
    text = written(report)
    print(text)
    (arguments.out / "gpu.md").write_text(text)
    if wrong:
        print("NOT AS IT SHOULD BE:", *wrong, sep="\n  ")
    return bool(wrong)


# Attribution.


def models():
    from models import MODELS

    def one(name):
        told = observed("model", name)
        ok = told.get("attributed", 0) >= 0.97
        return {"name": name, "ok": ok, **told}

    return at_once(one, MODELS, 1)


def role_model(name):
    import torch
    from models import MODELS
    from neurogc import _gpu

    kept = MODELS[name]("cuda")
    torch.cuda.synchronize()
    report = json.loads(_gpu.explain())
    (device,) = report["devices"]
    allocated = torch.cuda.memory_allocated()
    uses = ("parameters", "gradients", "optimizer", "buffers", "activations", "other", "workspaces")
    seen = sum(device[use] for use in uses)
    assert device["allocated_bytes"] == allocated, (device["allocated_bytes"], allocated)
    told = {
        "attributed": seen / allocated,
        "allocated": allocated,
        **{use: device[use] for use in (*uses, "unseen", "cached", "fragmented")},
        "not_pytorch": device.get("not_pytorch"),
        "others": len(device.get("others", [])),
        "took_ms": report["took_ms"],
        "complete": report["complete"],
        "holders": [(row["path"], row["bytes"], row["graph_bytes"]) for row in report["holders"][:6]],
    }
    print(json.dumps(told))
    del kept


# The card: pinned memory, who else is on it, and what is not PyTorch's.


def card():
    told = observed("card")
    listed, before, during = (told.get(name) for name in ("listed", "before", "during"))
    rows = [
        ("pinned memory", told.get("pinned_bytes") is not None and told["pinned_bytes"] >= PINNED),
        ("not PyTorch's", told.get("not_pytorch") is not None and 0 < told["not_pytorch"] < 8 << 30),
    ]
    if listed and before and before[0] is not None:
        # Otherwise the driver does not list processes, as in some containers: then it must not be told either.
        rows.append(("another process", during[0] == before[0] + 1 and during[1] > before[1] + (HELD >> 1)))
        rows.append(("this process is not another one", before[0] == len(listed) - 1))
    else:
        rows.append(("the driver lists no processes", "error" not in told and not listed and before == [None, None]))
    return [{"name": name, "ok": bool(ok), **told} for name, ok in rows]


PINNED = 64 << 20
HELD = 200 << 20


def role_card():
    import neurogc
    import torch
    from neurogc import _gpu
    from neurogc._gpu import allocator, cards

    pinned = torch.empty(PINNED, dtype=torch.uint8, pin_memory=True)
    kept = torch.ones(HELD, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()

    def others():
        _gpu._others_due = 0.0
        _gpu.look()
        device = neurogc.status()["gpu"]["devices"][0]
        return [device["other_processes"], device["other_processes_bytes"]]

    before = others()
    listed = cards._processes(0)
    words = [sys.executable, __file__, "--role", "holder"]
    with subprocess.Popen(words, env=environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        during = others()
        while_there = cards._processes(0)
        child.communicate("")
    held = json.loads(_gpu.explain())["devices"][0]
    # Whether blocks come without what the allocator has recorded, which depends on PyTorch.
    try:
        torch.cuda.memory._record_memory_history(max_entries=100_000)
        recorded = json.loads(_gpu.explain())
        with_history = [recorded["complete"], recorded["devices"][0]["allocated_bytes"] == torch.cuda.memory_allocated()]
    except Exception as error:
        with_history = f"{type(error).__name__}: {error}"
    told = {
        "pid": os.getpid(),
        "with_history": with_history,
        "contained": cards._is_contained(),
        "uuid": str(allocator.uuid(0)),
        "before": before,
        "during": during,
        "listed": listed and list(listed.items()),
        "listed_during": while_there and list(while_there.items()),
        "pinned_bytes": neurogc.status()["gpu"]["pinned_bytes"],
        "host": torch.cuda.host_memory_stats() if hasattr(torch.cuda, "host_memory_stats") else None,
        "not_pytorch": held.get("not_pytorch"),
        "reserved_bytes": held["reserved_bytes"],
        "degraded": neurogc.status()["degraded"],
    }
    print(json.dumps(told))
    del pinned, kept


def role_holder():
    """Has memory of the card until its input ends."""
    import torch

    kept = torch.ones(HELD, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.read()
    del kept


# Leaks and healthy loops.


def leaks():
    from loops import LEAKS

    def one(name):
        told = observed("loop", "LEAKS", name)
        found = told.get("found") or {}
        _, pattern, holder, advice = LEAKS[name]
        ok = found.get("confidence", 0) >= 0.6 and pattern in found["pattern"] and holder in found["holder"] and advice in found["advice"]
        return {"name": name, "ok": ok and told["at_step"] <= STEPS, **told}

    return at_once(one, LEAKS)


def verdicts():
    """What is no leak and has a verdict of its own, in the end."""
    from loops import VERDICTS

    def one(name):
        told = observed("verdict", name)
        _, kind, text, advice = VERDICTS[name]
        found = [it for it in told.get("findings", []) if it["kind"] == kind]
        ok = len(found) == 1 and text in found[0]["text"] and advice in found[0]["advice"]
        ok = ok and not any(it["kind"] == "gpu_leak" for it in told["findings"]) and told["degraded"] == []
        return {"name": name, "ok": ok, **told}

    return at_once(one, VERDICTS)


def role_verdict(name):
    import loops
    import neurogc

    loops.VERDICTS[name][0]("cuda", STEPS)
    status = neurogc.status()
    parts = ("kind", "confidence", "text", "pattern", "advice")
    findings = [{part: it[part] for part in parts} for it in status["findings"] if it["kind"].startswith("gpu_")]
    print(json.dumps({"findings": findings, "devices": status["gpu"]["devices"], "degraded": status["degraded"], "steps": status["gpu"]["steps"]}))


def healthy():
    from loops import HEALTHY

    def one(name):
        told = observed("loop", "HEALTHY", name)
        return {"name": name, "ok": "error" not in told and told["found"] is None, **told}

    return at_once(one, HEALTHY)


def role_loop(kind, name):
    import loops
    import neurogc
    from neurogc._native import agent
    from torch.optim.optimizer import register_optimizer_step_post_hook

    first = {}

    def alarm():
        found = [it for it in neurogc.status()["findings"] if it["kind"] == "gpu_leak" and it["confidence"] >= 0.6]
        return found[0] if found else None

    count = [0]

    def look(*_):
        # As the loop goes on: a false alarm that goes away again counts, too.
        count[0] += 1
        if count[0] % 10 == 0 and not first:
            found = alarm()
            if found:
                first.update(found, at_step=count[0])

    register_optimizer_step_post_hook(look)
    loop = getattr(loops, kind)[name]
    (loop[0] if kind == "LEAKS" else loop)("cuda", STEPS)
    status = neurogc.status()
    assert agent.__name__.endswith("_agent") and status["gpu"]["steps"] == count[0] > 0, status["gpu"]["steps"]
    assert status["degraded"] == [], status["degraded"]
    parts = ("confidence", "text", "pattern", "holder", "advice")
    found = {part: first[part] for part in parts} if first else None
    print(json.dumps({"found": found, "at_step": first.get("at_step"), "steps": count[0]}))


# Training loops of frameworks.


def frameworks():
    """The programs of `tests/training`, which use the GPU where there is one. Each fails by itself if something is wrong."""
    lightning = ("lightning", "pytorch_lightning")
    programs = {"plain_loop": ("torch",), "accelerate_loop": ("accelerate",), "lightning_fit": lightning, "lightning_evaluation": lightning,
                "huggingface_trainer": ("transformers",), "huggingface_evaluation": ("transformers",)}

    def one(program):
        if not any(importlib.util.find_spec(package) for package in programs[program]):
            return {"name": program, "ok": True, "told": f"not run: {programs[program][0]} is not installed"}
        policy = "auto" if program.endswith("evaluation") else "gap"
        env = environment(True) | {"NEUROGC_POLICY": policy, "HF_HUB_OFFLINE": "1"}
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, ROOT / "tests" / "training" / f"{program}.py"]
            done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=240)
        told = (done.stdout or done.stderr).strip().splitlines()
        return {"name": program, "ok": done.returncode == 0, "told": told[-1][-300:] if told else ""}

    return at_once(one, programs, 2)


# Errors.


def ooms():
    def one(job):
        kind, number = job
        with tempfile.TemporaryDirectory() as folder:
            done = observed("oom", kind, number, cwd=folder, check=False)
            reports = list(Path(folder).glob("neurogc-oom-*.json"))
            report = json.loads(reports[0].read_text()) if reports else {}
            text = next(Path(folder).glob("*.txt")).read_text() if reports else ""
        cause = "fragmentation" if kind == "fragmented" else "genuine"
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        ok = done.returncode == 1 and "OutOfMemoryError: CUDA out of memory" in last and report.get("cause") == cause
        if kind == "backward":
            # A thread of autograd has asked: the lines of the program are those of the main thread.
            ok = ok and any("role_oom" in line for row in report["other_stacks"] for line in row["lines"])
        row = {"name": f"{kind} {number}", "ok": ok and bool(text), "cause": report.get("cause"), "error": "" if ok else done.stderr[-800:]}
        return {**row, **{part: report.get(part) for part in ("asked_bytes", "room_bytes", "pieces_bytes")}, "remedies": report.get("remedies"), "steps": report.get("steps")}

    counts = {"genuine": OOMS, "fragmented": OOMS, "backward": 2}
    return at_once(one, [(kind, number) for kind, count in counts.items() for number in range(count)])


def role_oom(kind, number):
    """Runs out of memory within a part of the card. The numbers vary what is asked for and how."""
    import torch

    number = int(number)
    torch.cuda.set_per_process_memory_fraction(LIMIT / torch.cuda.get_device_properties(0).total_memory)
    unit = 1 << 20
    if kind == "genuine":
        if number % 2:
            model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4 + number))).cuda()
            kept, x = [], torch.randn(4096, 2048, device="cuda")
            while True:
                x = torch.relu(model(x))
                kept.append(x)
        kept = []
        while True:
            kept.append(torch.empty((20 + 13 * number) * unit, dtype=torch.uint8, device="cuda"))
    if kind == "backward":
        # 750 MB, as much for its square, which is free again when the two parts of the gradient need as much each: more than 2 GB.
        x = torch.ones((750 + 10 * number) * unit // 4, device="cuda", requires_grad=True)
        (x * x).sum().backward()
    # Blocks fill segments of 20 MB; every second one is freed. Half of the memory is free, in pieces.
    size = 2 * unit + number * 256 * 1024
    kept = []
    while torch.cuda.memory_reserved() < LIMIT - 60 * unit:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    del kept[::2]
    torch.empty((200 + 20 * number) * unit, dtype=torch.uint8, device="cuda")


# Snapshot files.


def files():
    """Real files, with and without history, against what PyTorch itself says at the same moment."""
    command = os.environ.get("NEUROGC_BIN") or str(ROOT / "target" / "fast" / "neurogc")

    def one(history):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "snapshot.pickle"
            told = observed("file", path, history, agent=False)
            if "error" in told:
                return {"name": history, "ok": False, **told}
            done = subprocess.run([command, "gpu", "show", path, "--json"], capture_output=True, text=True, timeout=60)
            size = path.stat().st_size
        if done.returncode:
            return {"name": history, "ok": False, "error": done.stderr[-800:]}
        report = json.loads(done.stdout)
        device, past = report["devices"][0], (report["history"] or [None])[0]
        same = [device[name] == told[name] for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")]
        ok = report["complete"] and not report["remarks"] and all(same) and bool(past) == (history == "all")
        if past:
            ok = ok and past["end_bytes"] == told["requested_bytes"] and any("check.py" in line["site"] for line in report["sites"])
        return {"name": history, "ok": ok, "file_bytes": size, "told": told, "device": device, "events": past and past["events"]}

    return [one("all"), one("none")]


def role_file(path, history):
    """Trains for some steps and writes a snapshot."""
    import torch

    if history == "all":
        torch.cuda.memory._record_memory_history()
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for _ in range(50):
        loss = model(torch.randn(64, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(loss.detach())
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(path)
    names = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    print(json.dumps({name: stats[f"{name}.all.current"] for name in names}))


ROLES = {
    "model": role_model, "card": role_card, "holder": role_holder, "loop": role_loop, "verdict": role_verdict, "oom": role_oom,
    "file": role_file, "steps": role_steps, "pairs": role_pairs,
}
PARTS = {
    "models": models, "card": card, "leaks": leaks, "healthy": healthy, "verdicts": verdicts, "frameworks": frameworks, "ooms": ooms,
    "files": files, "cost": cost,
}


def written(report):
    """The report for people."""
    lines = [
        "# Memory of GPUs",
        "",
        f"{report['gpu']}, PyTorch {report['torch']}, CPython {report['python']}, {report['processors']} processors; "
        f"`python tests/gpu/check.py`, {report['seconds']} s.",
    ]
    if "models" in report:
        lines += ["", "| model | allocated MB | attributed | not seen MB | look ms |", "|---|---|---|---|---|"]
        for row in report["models"]:
            if "error" in row:
                lines.append(f"| {row['name']} | failed: {row['error'].strip().splitlines()[-1]} |")
                continue
            share = f"{100 * row['attributed']:.2f} %"
            lines.append(f"| {row['name']} | {row['allocated'] / 1e6:.1f} | {share} | {row['unseen'] / 1e6:.1f} | {row['took_ms']:.0f} |")
    if "card" in report:
        lines += ["", "| card | as it should be |", "|---|---|"]
        lines += [f"| {row['name']} | {'yes' if row['ok'] else 'NO'} |" for row in report["card"]]
        told = report["card"][0]
        names = ("with_history", "contained", "pid", "listed", "listed_during", "before", "during", "pinned_bytes", "not_pytorch")
        lines += ["", told.get("error", "").strip()[-300:] or ", ".join(f"{name} {told.get(name)}" for name in names)]
    if "leaks" in report:
        lines += ["", "| leak | found at step | pattern | holder |", "|---|---|---|---|"]
        for row in report["leaks"]:
            found = row.get("found") or {"pattern": "NOT FOUND " + row.get("error", "")[-200:], "holder": ""}
            wrong = "" if row["ok"] else "WRONG: "
            lines.append(f"| {row['name']} | {row.get('at_step')} | {wrong}{found['pattern'].partition(':')[0]} | `{found['holder']}` |")
    if "healthy" in report:
        lines += ["", "| healthy loop | steps | alarm |", "|---|---|---|"]
        for row in report["healthy"]:
            alarm = row.get("error", "")[-200:] or (row["found"] or {"text": "none"})["text"]
            lines.append(f"| {row['name']} | {row.get('steps')} | {alarm} |")
    if "verdicts" in report:
        lines += ["", "| no leak | verdict |", "|---|---|"]
        for row in report["verdicts"]:
            texts = " ".join(it["text"] for it in row.get("findings", [])) or "none " + row.get("error", "")[-200:]
            lines.append(f"| {row['name']} | {'' if row['ok'] else 'WRONG: '}{texts} |")
    if "frameworks" in report:
        lines += ["", "| training loop | as it should be |", "|---|---|"]
        for row in report["frameworks"]:
            told = row.get("told", row.get("error", ""))
            judged = "yes" if row["ok"] else "NO"
            lines.append(f"| {row['name']} | {told if told.startswith('not run') else judged + ': ' + told} |")
    if "ooms" in report:
        lines += ["", "| error | told apart |", "|---|---|"]
        for kind in ("genuine", "fragmented", "backward"):
            rows = [row for row in report["ooms"] if row["name"].startswith(kind)]
            lines.append(f"| {kind} | {sum(row['ok'] for row in rows)} of {len(rows)} |")
    if "files" in report:
        lines += ["", "| snapshot file | bytes | events | as PyTorch says |", "|---|---|---|---|"]
        for row in report["files"]:
            lines.append(f"| history {row['name']} | {row.get('file_bytes')} | {row.get('events')} | {'yes' if row['ok'] else 'NO'} |")
    if "cost" in report:
        lines += ["", "| step time | pairs | on ms | off ms | median of ratios |", "|---|---|---|---|---|"]
        for row in report["cost"]:
            if "ratio" in row:
                lines.append(f"| {row['name']} | {row['pairs']} | {row['on_ms']:.3f} | {row['off_ms']:.3f} | {row['ratio']:.4f} |")
        inside = report["cost"][0]
        if "read_us" in inside:
            reading, passing = inside["hook_reading_us"], inside["hook_passing_us"]
            lines += ["", f"Reading the figures of a device takes {inside['read_us']:.1f} µs, the hook at the end of a step {reading:.1f} µs "
                      f"where it reads them, and {passing:.1f} µs where it does not."]
        lines += [f"{row['name']}: {row['error'].strip()[-200:]}" for row in report["cost"] if "error" in row]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    raise SystemExit(main())

"""Memory of GPUs on a real one: attribution, leak patterns, healthy loops, reports on errors, and what the watch costs.

    python tests/gpu/check.py [--out FOLDER] [PART…]

It needs PyTorch with CUDA and the built agent (`make build`), and takes some minutes on an H200. PART is one of models, leaks,
healthy, ooms, files, cost; all if none is named. It prints a report, writes it to FOLDER (bench/results if it is not named) as gpu.json and
gpu.md, and fails if something is not as it should be. On a machine without a GPU it says so.
"""

import argparse
import json
import operator
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "python" / "neurogc"
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fast" / "neurogc"
STEPS = 200
COUPLES = 6
TURNS = 40
STEPS_AT_ONCE = 20
OOMS = 10
AT_ONCE = 8
LIMIT = 2 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    arguments = parser.parse_args()
    if arguments.role:
        return ROLES[arguments.role[0]](*arguments.role[1:])
    import torch

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
        report[name] = PARTS[name]()
        wrong += [f"{name}: {row['name']}" for row in report[name] if not row["ok"]]
        print(f"{name}: {time.monotonic() - part_began:.0f} s", flush=True)
    report["seconds"] = round(time.monotonic() - began)
    text = written(report)
    print(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
    (arguments.out / "gpu.md").write_text(text)
    if wrong:
        print("NOT AS IT SHOULD BE:", *wrong, sep="\n  ")
    return bool(wrong)


def observed(*role, cwd=None, agent=True, check=True, timeout=240):
    """Runs one role of this file in a process of its own, under the agent unless that is not wanted."""
    words = [sys.executable, __file__, "--role", *map(str, role)]
    done = subprocess.run(words, env=environment(agent), cwd=cwd, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        return {"error": done.stderr[-1500:]}
    return json.loads(done.stdout.splitlines()[-1]) if check else done


def environment(agent):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NEUROGC_", "PYTHON"))}
    if agent:
        own.update(PYTHONPATH=str(HOME / "_inject"), NEUROGC_HOME=str(HOME), NEUROGC_POLICY="observe")
        own["NEUROGC_HUGE_ARENAS"] = "false"
    return own


def at_once(work, names):
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, names))


# Attribution.


def models():
    from models import MODELS

    def one(name):
        told = observed("model", name)
        ok = told.get("attributed", 0) >= 0.97
        return {"name": name, "ok": ok, **told}

    return [one(name) for name in MODELS]


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


# Leaks and healthy loops.


def leaks():
    from loops import LEAKS

    def one(name):
        told = observed("loop", "LEAKS", name)
        found = told.get("found") or {}
        _, pattern, holder = LEAKS[name]
        ok = found.get("confidence", 0) >= 0.6 and pattern in found["pattern"] and holder in found["holder"]
        return {"name": name, "ok": ok and told["at_step"] <= STEPS, **told}

    return at_once(one, LEAKS)


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
    parts = ("confidence", "text", "pattern", "holder")
    found = {part: first[part] for part in parts} if first else None
    print(json.dumps({"found": found, "at_step": first.get("at_step"), "steps": count[0]}))


# Errors.


def ooms():
    def one(job):
        kind, number = job
        with tempfile.TemporaryDirectory() as folder:
            done = observed("oom", kind, number, cwd=folder, check=False)
            reports = list(Path(folder).glob("neurogc-oom-*.json"))
            report = json.loads(reports[0].read_text()) if reports else {}
            text = next(Path(folder).glob("*.txt")).read_text() if reports else ""
        cause = "genuine" if kind == "genuine" else "fragmentation"
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        ok = done.returncode == 1 and "OutOfMemoryError: CUDA out of memory" in last and report.get("cause") == cause
        row = {"name": f"{kind} {number}", "ok": ok and bool(text), "cause": report.get("cause"), "error": "" if ok else done.stderr[-800:]}
        return {**row, **{part: report.get(part) for part in ("asked_bytes", "room_bytes", "pieces_bytes")}, "remedies": report.get("remedies")}

    return at_once(one, [(kind, number) for kind in ("genuine", "fragmented") for number in range(OOMS)])


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


# What it costs.


def cost():
    return [
        {"name": "the watch on and off in one process", **judged(observed("pairs"))},
        {"name": "a process under `neurogc run` and one without", **judged(together(True, COUPLES))},
        {"name": "two processes without it", **together(False, COUPLES // 2), "ok": True},
    ]


def judged(told):
    return {**told, "ok": told.get("ratio", 9) <= 1.01}


def together(agent, couples):
    """Two processes that train in turns, on the same processors: the first with or without the agent, the second without."""
    found = [couple(agent) for _ in range(couples)]
    if errors := [one["error"] for one in found if "error" in one]:
        return {"error": errors[0]}
    first, second = ([time for one in found for time in one[which]] for which in ("first", "second"))
    each = [statistics.median(map(operator.truediv, one["first"], one["second"])) for one in found]
    return {**summary(first, second), "ratio": statistics.median(each), "ratios": [round(it, 4) for it in each]}


def couple(agent):
    processors = sorted(os.sched_getaffinity(0))[:4]
    words = [sys.executable, __file__, "--role", "steps", *map(str, processors)]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pair = [
        subprocess.Popen([*before, *words], env=environment(False), **piped)
        for before in ([COMMAND, "run", "--"] if agent else [], [])
    ]
    try:
        if not all(process.stdout.readline() for process in pair):
            return {"error": "".join(process.communicate(timeout=60)[1] for process in pair)[-1500:]}
        times = [[], []]
        for number in range(TURNS):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                print(STEPS_AT_ONCE, file=pair[which].stdin, flush=True)
                times[which].append(float(pair[which].stdout.readline()))
        return {"first": times[0], "second": times[1]}
    finally:
        for process in pair:
            process.kill()
            process.communicate()


def summary(first, second):
    return {"pairs": len(first), "on_ms": statistics.median(first), "off_ms": statistics.median(second)}


class Steps:
    """A transformer whose step takes some milliseconds."""

    def __init__(self):
        import torch

        self.torch = torch
        layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
        self.model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.batch = torch.randn(16, 128, 512, device="cuda")
        self.median_ms(200)

    def median_ms(self, count):
        found = []
        for _ in range(count):
            began = time.perf_counter()
            loss = self.model(self.batch).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.torch.cuda.synchronize()
            found.append(1e3 * (time.perf_counter() - began))
        return statistics.median(found)


def role_steps(*processors):
    """For each number of steps that it reads, the median of their times."""
    os.sched_setaffinity(0, map(int, processors))
    steps = Steps()
    print("ready", flush=True)
    for line in sys.stdin:
        print(steps.median_ms(int(line)), flush=True)


def role_pairs():
    from neurogc import _gpu

    steps = Steps()
    on, off = [], []
    for number in range(TURNS * COUPLES):
        for is_on in (number % 2 == 0, number % 2 == 1):
            _gpu._is_on = is_on
            (on if is_on else off).append(steps.median_ms(STEPS_AT_ONCE))
    _gpu._is_on = True
    began = time.perf_counter()
    for _ in range(1000):
        _gpu.allocator.figures(0)
    read = 1e3 * (time.perf_counter() - began)
    hook = []
    for _ in range(1000):
        began = time.perf_counter()
        _gpu.step_ended()
        hook.append(1e6 * (time.perf_counter() - began))
    told = {**summary(on, off), "ratio": statistics.median(map(operator.truediv, on, off))}
    print(json.dumps({**told, "read_us": read, "hook_us": statistics.median(hook)}))


ROLES = {"model": role_model, "loop": role_loop, "oom": role_oom, "file": role_file, "steps": role_steps, "pairs": role_pairs}
PARTS = {"models": models, "leaks": leaks, "healthy": healthy, "ooms": ooms, "files": files, "cost": cost}


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
    if "ooms" in report:
        lines += ["", "| error | told apart |", "|---|---|"]
        for kind in ("genuine", "fragmented"):
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
            lines += ["", f"Reading the figures of a device takes {inside['read_us']:.1f} µs, the whole hook {inside['hook_us']:.1f} µs."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    raise SystemExit(main())

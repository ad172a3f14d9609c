"""What the watch costs a training step: in one process, and in processes that train in turns."""

import json
import operator
import os
import statistics
import subprocess
import sys
import time

from processes import CHECK, COMMAND, environment, observed

COUPLES = 6
TURNS = 40
STEPS_AT_ONCE = 20


def cost():
    return [
        {"name": "the watch on and off in one process", **judged(observed("pairs"))},
        {"name": "a process under `neurogc run` and one without", **judged(together(True, COUPLES))},
        {"name": "two processes without it", **together(False, COUPLES // 2), "ok": True},
        *variants(),
    ]


# What the difference comes from: the agent as it is by default, without its allocation sampler, with CPython's own collections, and
# with neither. Rows to read, not to judge.
VARIANTS = {
    "by default": [],
    "allocations=off": ["--set", "allocations=off"],
    "policy observe": ["--policy", "observe"],
    "allocations=off, policy observe": ["--set", "allocations=off", "--policy", "observe"],
}
ROUNDS, ROUND_TURNS = 4, 14


def variants():
    """All of them and a process without the agent train in turns, a few rounds of new processes."""
    commands = [[], *([COMMAND, "run", *words, "--"] for words in VARIANTS.values())]
    found = []
    try:
        for _ in range(ROUNDS):
            found.append(in_turns(commands, ROUND_TURNS))
    except Exception as error:
        return [{"name": "variants of `neurogc run`", "ok": False, "error": f"{type(error).__name__}: {error}"[-1500:]}]
    rows = []
    for number, name in enumerate(VARIANTS, 1):
        on, off = ([time for one in found for time in one[which]] for which in (number, 0))
        each = [statistics.median(map(operator.truediv, one[number], one[0])) for one in found]
        row = {**summary(on, off), "ratio": statistics.median(each), "ratios": [round(it, 4) for it in each]}
        rows.append({"name": f"`neurogc run`, {name}, {ROUNDS} couples in turns", **row, "ok": True})
    return rows


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
    try:
        first, second = in_turns([[COMMAND, "run", "--"] if agent else [], []], TURNS)
    except Exception as error:
        return {"error": str(error)[-1500:]}
    return {"first": first, "second": second}


def in_turns(commands, turns):
    """Processes that train in turns, each begun by one of these commands: the times of each."""
    processors = sorted(os.sched_getaffinity(0))[:4]
    words = [sys.executable, CHECK, "--role", "steps", *map(str, processors)]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*map(str, before), *words], env=environment(False), **piped) for before in commands]
    try:
        if not all(process.stdout.readline() for process in running):
            for process in running:
                process.kill()
            raise RuntimeError("".join(process.communicate(timeout=60)[1] for process in running))
        times = [[] for _ in running]
        order = list(range(len(running)))
        for _ in range(turns):
            for which in order:
                print(STEPS_AT_ONCE, file=running[which].stdin, flush=True)
                times[which].append(float(running[which].stdout.readline()))
            order.reverse()
        return times
    finally:
        for process in running:
            process.kill()
        for process in running:
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
    # The hook where it reads figures, and where it lets a step pass.
    hook = {0.0: [], float("inf"): []}
    for _ in range(1000):
        for due, times in hook.items():
            _gpu._due, _gpu._left = due, 0
            began = time.perf_counter()
            _gpu.step_ended()
            times.append(1e6 * (time.perf_counter() - began))
    told = {**summary(on, off), "ratio": statistics.median(map(operator.truediv, on, off))}
    reading, passing = map(statistics.median, hook.values())
    print(json.dumps({**told, "read_us": read, "hook_reading_us": reading, "hook_passing_us": passing}))

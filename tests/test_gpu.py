"""Memory of GPUs: what is read, who holds it, which leaks are found, and reports on errors. PyTorch is a made-up one here;
`tests/gpu` does the same with a real one, on a machine with a GPU.
"""

import json
import sys

import pytest
from observed import APPS, Running, ask, binary, eventually, neurogc, python, run

TORCH = APPS / "fake_torch"

# A model with 3 MB of parameters, one buffer, and a training step that leaves nothing behind.
MODEL = """
import json, sys, neurogc, torch
from torch import nn
from torch.optim.optimizer import Optimizer
KB = 1024
model = nn.Module(*(nn.Parameter(1024 * KB) for _ in range(3)), buffers=[torch.Tensor(256 * KB)])
optimizer = Optimizer(model._parameters.values(), 1024 * KB)
torch.cuda.init()
def forward():
    return model(torch.Tensor(KB, torch.Node(64 * KB, torch.Node(64 * KB))))
def step():
    for parameter in model._parameters.values():
        parameter.grad = torch.Tensor(1024 * KB)
    optimizer.step()
    for parameter in model._parameters.values():
        parameter.grad = None
def explained():
    from neurogc import _gpu
    return json.loads(_gpu.explain())
def told():
    status = neurogc.status()
    print(json.dumps({"gpu": status["gpu"], "degraded": status["degraded"], "findings": status["findings"]}))
"""


def train(code, before="", **keywords):
    """Runs a program with the model, and gives what it told at its end."""
    return json.loads(python(before + MODEL + code, PYTHONPATH=TORCH, NEUROGC_POLICY="observe", **keywords).splitlines()[-1])


def leaks(told):
    return [finding for finding in told["findings"] if finding["kind"] == "gpu_leak"]


@pytest.mark.needs_agent
def test_figures_are_read_at_the_ends_of_steps():
    told = train("for _ in range(5): step()\ntold()")
    gpu = told["gpu"]
    assert told["degraded"] == [] and gpu["steps"] == 5 and len(gpu["recent"]) == 5
    # Three parameters, a buffer and six tensors of the optimizer; gradients are there when the hook runs.
    assert gpu["recent"][-1]["allocated_bytes"] == (3 + 6 + 3) * 2**20 + 256 * 2**10
    (device,) = gpu["devices"]
    assert device["reserved_bytes"] >= device["active_bytes"] >= device["allocated_bytes"] > 0 and device["blocks"] == 13
    assert (device["card_bytes"], gpu["pinned_bytes"]) == (2**30, 12345)
    assert device["card_free_bytes"] == 2**30 - device["reserved_bytes"]


@pytest.mark.needs_agent
def test_after_the_first_steps_figures_are_read_more_seldom_and_all_steps_count():
    told = train("""
for _ in range(128): step()
asked = torch.card.asked
for _ in range(2000): step()
assert torch.card.asked - asked < 500, torch.card.asked - asked
told()
""")
    assert told["gpu"]["steps"] == 2128 and told["degraded"] == []


@pytest.mark.needs_agent
def test_a_program_without_a_gpu_is_asked_nothing():
    told = json.loads(python("""
import json, neurogc, torch, time
from torch import nn
from torch.optim.optimizer import Optimizer
optimizer = Optimizer([nn.Parameter(512)], 512)
for _ in range(20):
    optimizer.step()
print(json.dumps([torch.card.asked, neurogc.status()["gpu"]]))
""", PYTHONPATH=TORCH))
    assert told[0] == 0 and told[1]["devices"] == [] and told[1]["steps"] == 0


@pytest.mark.needs_agent
def test_figures_come_also_without_steps():
    told = train("""
import time
kept = torch.Tensor(5 << 20)
until = time.monotonic() + 15
while not neurogc.status()["gpu"]["devices"] and time.monotonic() < until:
    time.sleep(0.01)
told()
""")
    assert told["gpu"]["steps"] == 0 and told["gpu"]["allocated_bytes"] >= 5 << 20


@pytest.mark.needs_agent
def test_every_block_has_its_use_and_tensors_their_path():
    report = train("""
class Trainer: pass
trainer = Trainer()
trainer.history = {"loss": [forward() for _ in range(7)]}
cache = {number: torch.Tensor(32 * KB) for number in range(30)}
def work():
    local = torch.Tensor(640 * KB)
    view = local.view()
    for parameter in model._parameters.values():
        parameter.grad = torch.Tensor(1024 * KB)
    optimizer.step()
    hidden = torch.card.take(128 * KB)
    workspaces = [torch.card.take(32 << 20) for _ in range(2)]
    print(json.dumps(explained()))
work()
""")
    (device,) = report["devices"]
    kb = 1024
    assert device["parameters"] == device["gradients"] == 3 * 1024 * kb
    assert device["optimizer"] == 6 * 1024 * kb and device["buffers"] == 256 * kb
    assert device["activations"] == 7 * 4 * 64 * kb
    assert device["other"] == (7 + 30 * 32 + 640) * kb
    assert device["unseen"] == 128 * kb and device["workspaces"] == 64 << 20
    parts = ("parameters", "gradients", "optimizer", "buffers", "activations", "other", "workspaces", "unseen")
    assert sum(device[part] for part in parts) == device["allocated_bytes"]
    assert device["reserved_bytes"] == device["allocated_bytes"] + device["cached"] + device["fragmented"]
    assert report["complete"] and device["name"] == "made-up card"
    held = {holder["path"]: holder for holder in report["holders"]}
    losses = held['__main__.trainer.history["loss"][…]']
    assert (losses["tensors"], losses["bytes"], losses["graph_bytes"]) == (7, 7 * kb, 7 * 4 * 64 * kb)
    assert held["__main__.cache[…]"]["bytes"] == 30 * 32 * kb
    assert held["work(): local"]["bytes"] + held.get("work(): view", {"bytes": 0})["bytes"] == 640 * kb


@pytest.mark.needs_agent
@pytest.mark.parametrize("hooks", ["none", "pushed", "registered"])
def test_older_versions_tell_what_is_saved_unless_hooks_would_be_called(hooks):
    report = train(f"""
hooks = {hooks!r}
if hooks == "pushed":
    torch._C._autograd._push_saved_tensors_default_hooks(None, None)
loss = forward()
if hooks == "registered":
    loss.grad_fn._raw_saved_self.register_hooks(lambda tensor: tensor, None)
print(json.dumps(explained()))
""", FAKE_TORCH="old")
    (device,) = report["devices"]
    assert device["activations"] == (4 * 64 * 1024 if hooks == "none" else 0), device


@pytest.mark.needs_agent
def test_tensors_that_stand_for_others_are_claimed_with_what_they_have_in_slots():
    report = train("""
class Sharded(nn.Parameter):
    __slots__ = ("_local_tensor", "_never_set")
    def __init__(self, size):
        super().__init__(0)
        self._local_tensor = torch.Tensor(size)
sharded = nn.Module(Sharded(5 << 20))
print(json.dumps(explained()))
""")
    (device,) = report["devices"]
    # Beside the model with its 3 MB.
    assert (device["parameters"], device["other"]) == (8 << 20, 0), device


# How each leaks, with the pattern and the holder that must be named.
LEAKS = {
    "graph": ("losses = []\ndef leak(): losses.append(forward())", "kept with its graph", "__main__.losses[…]"),
    "logging": (
        "history = {'x': []}\ndef leak(): history['x'].append(torch.Tensor(64 * KB))", "container for logging", '__main__.history["x"][…]',
    ),
    "hook": (
        """
def watch(model):
    kept = []
    model.register_forward_hook(lambda module, inputs, output: kept.append(torch.Tensor(64 * KB)))
watch(model)
def leak(): forward()
""", "hook that keeps activations", '__closure__["kept"]',
    ),
    "attribute": (
        """
class Recurrent(nn.Module):
    last_output = None
recurrent = Recurrent()
def leak():
    before = recurrent.last_output
    recurrent.last_output = torch.Tensor(KB, torch.Node(64 * KB, *([before.grad_fn] if before else [])))
""", "tensor as an attribute", "__main__.recurrent.last_output",
    ),
    "running_sum": (
        """
total = None
def leak():
    global total
    total = torch.Tensor(KB, torch.Node(64 * KB, *([total.grad_fn] if total else [])))
""", "retain_graph", "__main__.total",
    ),
    "create_graph": (
        """
for parameter in model._parameters.values():
    parameter.grad = torch.Tensor(1024 * KB)
def leak():
    for parameter in model._parameters.values():
        before = parameter.grad.grad_fn
        parameter.grad.grad_fn = torch.Node(64 * KB, *([before] if before else []))
def step():
    optimizer.step()
""", "create_graph", "gradients of parameters",
    ),
    "traceback": (
        """
errors = []
def load(batch):
    raise ValueError("wrong")
def leak():
    try:
        load(torch.Tensor(64 * KB))
    except ValueError as error:
        errors.append(error)
""", "stored traceback", "__traceback__ in load(): batch",
    ),
    "dataset": (
        """
from torch.utils.data import Dataset
class Cached(Dataset):
    items = {}
data = Cached()
def leak(): data.items[len(data.items)] = torch.Tensor(64 * KB)
""", "cache in the dataset", "Cached.items[…]",
    ),
}


@pytest.mark.needs_agent
@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found_within_200_steps_with_its_pattern_and_holder(name):
    code, pattern, holder = LEAKS[name]
    told = train(code + "\nfor _ in range(200):\n    leak()\n    step()\ntold()")
    (found,) = leaks(told)
    assert told["degraded"] == [] and found["confidence"] >= 0.9, found
    assert pattern in found["pattern"] and holder in found["holder"], found


HEALTHY = {
    "plain": "def more(number): loss = forward()",
    "growing": "def more(number):\n    global output\n    output = torch.Tensor((100 + number) * KB)",
    "accumulation": "kept = []\ndef more(number):\n    kept.append(torch.Tensor(64 * KB))\n    if number % 8 == 7: kept.clear()",
    "average": "average = [torch.Tensor(1024 * KB) for _ in range(3)]\ndef more(number): pass",
    "warm_up": "kept = []\ndef more(number):\n    if number < 30: kept.append(torch.Tensor(64 * KB))",
}


@pytest.mark.needs_agent
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_loop_gives_no_alarm(name):
    told = train(HEALTHY[name] + "\nfor number in range(240):\n    more(number)\n    step()\ntold()")
    assert leaks(told) == [] and told["gpu"]["steps"] == 240 and told["degraded"] == []


FILLED = """
kept = []
def fill():
    while True:
        kept.append(torch.Tensor(50 << 20))
"""


def oom(tmp_path, code):
    """Runs a program that dies by its error, and gives the report on it."""
    done = run(sys.executable, "-c", MODEL + code, cwd=tmp_path, PYTHONPATH=TORCH, NEUROGC_POLICY="observe")
    assert done.returncode == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    # The error is the program's own.
    assert lines[-1] == "torch.OutOfMemoryError: CUDA out of memory" and "neurogc/_gpu" not in done.stderr
    told = [line for line in lines if line.startswith("neurogc:")]
    (text,) = tmp_path.glob("neurogc-oom-*.txt")
    (report,) = tmp_path.glob("neurogc-oom-*.json")
    assert len(told) == 1 and told[0].endswith(text.name) and len(list(tmp_path.iterdir())) == 2
    return json.loads(report.read_text()), text.read_text()


@pytest.mark.needs_agent
def test_the_report_on_an_error_says_that_memory_is_in_use(tmp_path):
    report, text = oom(tmp_path, FILLED + "for _ in range(3): step()\nfill()")
    assert report["cause"] == "genuine" and report["asked_bytes"] == 50 << 20
    assert report["holders"][0]["path"] == "__main__.kept[…]" and report["held"]["parameters"] == 3 << 20
    assert "Cause: the memory is in use." in text and "__main__.kept[…]" in text
    assert any("Letting go of __main__.kept[…]" in remedy for remedy in report["remedies"])
    assert any("in fill" in line for line in report["stack"])


@pytest.mark.needs_agent
def test_the_report_on_an_error_says_that_memory_is_in_pieces(tmp_path):
    # Every second block of 1 MB is freed: half of the card is free, and no two megabytes of it are together.
    report, text = oom(tmp_path, """
kept = [torch.Tensor(1 << 20) for _ in range(1000)]
del kept[::2]
torch.Tensor(100 << 20)
""")
    assert report["cause"] == "fragmentation" and report["pieces_bytes"] > 400 << 20
    assert "expandable_segments" in text


@pytest.mark.needs_agent
def test_the_report_on_an_error_names_what_was_allocated_since_the_last_step(tmp_path):
    report, text = oom(tmp_path, """
from neurogc._gpu import steps
before = [torch.Tensor(200 << 20)]
small = [torch.Tensor(64 * KB) for _ in range(50)]
for _ in range(3):
    steps._due = 0.0
    step()
batch = [torch.Tensor((100 + 10 * number) << 20) for number in range(3)]
def forward():
    hidden = torch.Tensor(90 << 20)
    graph = torch.Tensor(KB, torch.Node(20 << 20))
    torch.Tensor(500 << 20)
forward()
""")
    since = report["since"]
    assert (since["step"], since["steps"], since["least_bytes"]) == (3, 3, 1 << 20)
    # What was there at the end of the step is not among them, nor are small blocks.
    assert [row["bytes"] >> 20 for row in since["largest"]] == [120, 110, 100, 90, 20, 20]
    assert since["blocks"] == 6 and since["bytes"] == 460 << 20
    assert [row["path"] for row in since["largest"][:4]] == ["__main__.batch[…]"] * 3 + ["forward(): hidden"]
    assert [row["use"] for row in since["largest"]] == ["other"] * 4 + ["activations"] * 2
    assert "Allocated since the end of step 3: 6 blocks of at least 1.0 MB, together 460.0 MB" in text
    assert "  120.0 MB other __main__.batch[…]" in text


@pytest.mark.needs_agent
def test_the_report_on_an_error_has_recent_steps_and_what_they_took(tmp_path):
    # Every step takes 200 MB for a while; then the program keeps 700 MB, and the next step fails.
    report, text = oom(tmp_path, """
for number in range(3):
    activations = torch.Tensor(200 << 20)
    del activations
    step()
kept = [torch.Tensor(700 << 20)]
step()
activations = torch.Tensor(400 << 20)
""")
    stays = (3 + 6 + 3 + 700) * 2**20 + 256 * 2**10
    recent = report["steps"]["recent"]
    assert [row["step"] for row in recent] == [1, 2, 3, 4] and recent[-1]["allocated_bytes"] == stays
    # A gradient of each parameter is there only at the ends of steps.
    assert report["steps"]["stays_bytes"] == stays and report["steps"]["need_bytes"] >> 20 == 700, report["steps"]
    assert "Recent steps" in text and f"step 4: {stays / 2**20:.1f} MB at its end" in text, text


@pytest.mark.needs_agent
def test_an_error_in_the_backward_pass_names_the_thread_that_called_it(tmp_path):
    # A thread without any line of the program, as those of autograd.
    report, text = oom(tmp_path, """
import _thread, os, time
from neurogc._gpu import oom
def backward():
    _thread.start_new_thread(oom._observed, (0, 2 << 30, 1 << 30, 1 << 20))
    until = time.monotonic() + 30
    while not any(name.endswith(".txt") for name in os.listdir()) and time.monotonic() < until:
        time.sleep(0.01)
    oom._quiet_until = time.monotonic() + 60
    torch.Tensor(2 << 30)
backward()
""")
    assert report["stack"] == []
    (waiting,) = report["other_stacks"]
    assert waiting["thread"] == "main thread" and any("in backward" in line for line in waiting["lines"]), waiting
    assert "Meanwhile in the main thread" in text and "Asked by" not in text


@pytest.mark.needs_agent
@pytest.mark.parametrize("kind", ["traces", "slow", "many"])
def test_the_report_on_an_error_comes_within_two_seconds(tmp_path, kind):
    # The allocator records its history; it is slow; there are many tensors in many places.
    report, text = oom(tmp_path, f"""
import time
from neurogc._gpu import allocator, oom
kept = [torch.Tensor(10 << 20)]
def slowly(pool):
    until = time.perf_counter() + 0.6
    while time.perf_counter() < until:
        pass
if {kind!r} == "traces":
    torch.card.history, torch.card.slowly = True, slowly
elif {kind!r} == "slow":
    torch.card.slowly = slowly
    allocator.segments()
    allocator._FEW, torch.card.slowly = 1, lambda pool: slowly(pool) or slowly(pool) or slowly(pool)
    allocator.segments()
else:
    oom._SECONDS = 0.2
    tensor, other = kept[0], torch.Tensor(1 << 20)
    class Thing: pass
    things = {{}}
    for number in range(100_000):
        things[number] = thing = Thing()
        thing.tensor = tensor.view()
    modules = [nn.Module(other.view(), buffers=[other.view()]) for _ in range(10_000)]
report, took = oom._report, []
def timed(*arguments):
    began = time.perf_counter()
    try:
        return report(*arguments)
    finally:
        took.append(time.perf_counter() - began)
        open("took", "w").write(str(took[0]))
oom._report = timed
try:
    torch.Tensor(2 << 30)
finally:
    assert float(open("took").read()) < 2, took
    import os
    os.remove("took")
""")
    assert report["cause"] == "genuine" and report["held"]["allocated_bytes"] >= 10 << 20
    if kind == "many":
        assert report["left_out"] == "" and not report["complete"] and "There was no time" in text
    else:
        assert not report["complete"] and report["holders"] == [] and report["since"] is None
        assert ("history" if kind == "traces" else "take too long") in report["left_out"]
        assert "Who held the memory was not looked at" in text and "In use: " in text


@pytest.mark.needs_agent
def test_blocks_are_asked_for_without_history_where_pytorch_can():
    report = train("""
asked = []
torch.card.history, torch.card.slowly = True, asked.append
def memory_snapshot(mempool_id=None, include_traces=True): pass
torch.cuda.memory_snapshot = memory_snapshot
kept = [torch.Tensor(3 << 20)]
found = explained()
assert asked == [(0, 0, False)], asked
print(json.dumps(found))
""")
    assert report["complete"] and report["devices"][0]["other"] == 3 << 20


@pytest.mark.needs_agent
def test_what_would_have_fitted():
    """For each error, what the advice must begin with, and nothing else."""
    MB = 1 << 20

    def error(held, asked=100, room=40, need=0, stays=0, **more):
        held = {name: size * MB for name, size in held.items()}
        steps = {"need_bytes": need * MB, "stays_bytes": stays * MB}
        return {"asked_bytes": asked * MB, "room_bytes": room * MB, "pieces_bytes": 0, "cause": "genuine", "held": held,
                "holders": [], "steps": steps, **more}

    model = {"allocated_bytes": 960, "parameters": 300, "optimizer": 600}
    full = {"allocated_bytes": 960, "parameters": 100, "gradients": 100, "optimizer": 200, "activations": 560}
    holder = {"path": "losses[…]", "bytes": 30 * MB, "graph_bytes": 40 * MB}
    # The error, 32-bit activations, processes, and the advice.
    table = [
        (error(model), 0, 1, ["Nothing that this process holds beside its model gives 60.0 MB"]),
        (error({**model, "activations": 59}), 0, 1, ["Nothing"]),
        # In the first step nothing is known of what was still to come.
        (error(full), 0, 1, ["A batch of at most 90 % of this one, and of less", "Activation checkpointing: frees up to 560.0 MB"]),
        # 1,000 MB in all, 400 of which stay: 600 for a step, and earlier ones took 500.
        (error(full, need=500, stays=400), 0, 1, ["A batch of at most 120 % of that of earlier steps", "Activation"]),
        # A leak: what stays is nearly everything.
        (error(full, need=500, stays=900), 0, 1, ["A batch of at most 20 % of that of earlier steps", "Activation"]),
        (error(full, need=500, stays=1000), 0, 1, ["Activation"]),
        (error(full, need=500, stays=400), 119 * MB, 1, ["A batch", "Activation"]),
        (error(full, need=500, stays=400), 120 * MB, 1, ["A batch", "Activation", "bf16 autocast: half of the 120.0 MB"]),
        (error(model), 0, 4, ["ZeRO or FSDP over 4 processes: frees 450.0 MB"]),
        (error(model, asked=500), 0, 4, ["Nothing"]),
        (error(model, holders=[{**holder, "path": ""}, holder]), 0, 1, ["Letting go of losses[…]: frees 70.0 MB"]),
        (error(model, holders=[holder], asked=111), 0, 1, ["Nothing"]),
        (error(full, need=500, stays=400, cause="fragmentation", pieces_bytes=150 * MB), 900 * MB, 4,
         ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 150.0 MB is free in pieces, 100.0 MB", "Few different sizes"]),
    ]
    found = json.loads(python(
        f"import json\nfrom neurogc._gpu import oom\nrows = json.loads({json.dumps([row[:3] for row in table])!r})\n"
        "print(json.dumps([oom.remedies(*row) for row in rows]))",
        PYTHONPATH=TORCH,
    ))
    for (case, *_, wanted), told in zip(table, found, strict=True):
        assert len(told) == len(wanted) and all(map(str.startswith, told, wanted)), (case, told)


@pytest.mark.needs_agent
def test_blocks_of_steps_are_read_seldom_and_not_beside_a_history():
    told = train("""
from neurogc._gpu import steps
for _ in range(3000): step()
# The first step, and then one in five hundred of the time.
assert 1 <= torch.card.snapshots < 60, torch.card.snapshots
kept, ended = steps.kept()
assert ended == 3000 and 1 <= kept.step <= 3000
torch.card.history, before = True, torch.card.snapshots
steps._due = 0.0
step()
assert torch.card.snapshots == before and steps.kept()[0] is kept
del torch._C._cuda_isHistoryEnabled
step()
assert torch.card.snapshots == before
told()
""")
    assert told["degraded"] == []


@pytest.mark.needs_agent
def test_of_very_many_blocks_the_largest_are_kept():
    python(MODEL + """
from neurogc._gpu import steps
from neurogc._gpu.blocks import Blocks
def segments(many, extra=()):
    blocks = [{"address": n << 32, "size": (n + 1) << 20, "state": "active_allocated"} for n in range(many)]
    return [{"device": 0, "address": 0, "total_size": 0, "blocks": [*blocks, *extra]}]
kept = steps.Kept(7, Blocks(segments(5000)))
assert len(kept.sizes) == 4095 and kept.least == (905 << 20) + 1, (len(kept.sizes), kept.least)
new = {"address": 1 << 50, "size": 950 << 20, "state": "active_allocated"}
again = {"address": 1 << 51, "size": 800 << 20, "state": "active_allocated"}
rows = Blocks(segments(5000, [new, again])).since(kept.sizes, kept.least, 0)
assert [size for size, _ in rows] == [950 << 20], rows
assert Blocks(segments(5000)).since(kept.sizes, kept.least, 0) == []
""", PYTHONPATH=TORCH, NEUROGC_POLICY="observe")


@pytest.mark.needs_agent
def test_errors_that_the_program_handles_are_counted_and_not_told_again(tmp_path):
    code = MODEL + FILLED + """
for _ in range(4):
    try:
        fill()
    except torch.OutOfMemoryError:
        kept.clear()
    step()
told()
"""
    done = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=TORCH, NEUROGC_POLICY="observe")
    gpu = json.loads(done.stdout)["gpu"]
    assert done.returncode == 0 and done.stderr.count("neurogc:") == 1
    assert (gpu["ooms"], gpu["ooms_handled"]) == (4, 4) and gpu["oom_report"].endswith(".txt")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.needs_agent
def test_an_unknown_pytorch_is_told_once_and_harms_nothing():
    told = train("""
del torch._C._cuda_memoryStats
for _ in range(3): step()
told()
""")
    (trouble,) = told["degraded"]
    assert "memory of GPUs is not watched any more" in trouble
    # Steps are counted all the same, and what the card says is known.
    assert told["gpu"]["steps"] == 3 and told["gpu"]["recent"] == [] and told["gpu"]["devices"][0]["card_bytes"] == 2**30


# What other allocators that a program may choose refuse, and the beginning of what is told then.
REFUSED = {
    "_cuda_attach_out_of_memory_observer": "there will be no reports",
    "_cuda_memorySnapshot": "blocks of the allocator are not read",
    "_cuda_hostMemoryStats": "pinned memory is not read",
    "_cuda_memoryStats": "memory of GPUs is not watched",
}


@pytest.mark.needs_agent
@pytest.mark.parametrize("function", REFUSED)
def test_what_an_allocator_refuses_is_left_out_and_the_rest_is_watched(function):
    told = train("""
from neurogc import _gpu
for _ in range(3): step()
_gpu.look()
told()
""", before=f"""
import torch
def refused(*_):
    raise RuntimeError("this allocator does not yet support it")
torch._C.{function} = refused
""")
    (trouble,) = told["degraded"]
    assert trouble.startswith(REFUSED[function]) and "does not yet support it" in trouble
    gpu = told["gpu"]
    (device,) = gpu["devices"]
    assert gpu["steps"] == 3 and device["card_bytes"] == 2**30
    assert (len(gpu["recent"]), device["blocks"]) == ((0, 0) if "memoryStats" in function else (3, 10)), gpu
    assert gpu["pinned_bytes"] == (None if "host" in function else 12345)


@pytest.mark.needs_agent
def test_a_look_keeps_nothing_alive():
    out = python(MODEL + """
import gc, weakref
def work():
    loss = forward()
    explained()
    watched = weakref.ref(loss)
    loss = None
    assert watched() is None, gc.get_referrers(watched())
gc.disable()
work()
before = len(torch.card.blocks)
explained()
assert len(torch.card.blocks) == before
print("ok")
""", PYTHONPATH=TORCH, NEUROGC_POLICY="observe")
    assert out == "ok\n"


@pytest.mark.needs_agent
@pytest.mark.skipif(not binary(), reason="needs the neurogc command")
def test_the_command_asks_a_running_process():
    code = MODEL + """
import time
kept = [torch.Tensor(3 << 20)]
step()
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
    with Running(code, PYTHONPATH=TORCH, policy="observe") as program:
        assert program.line() == "ready" and eventually(lambda: ask(program.pid))
        text = neurogc("gpu", program.pid)
        assert "__main__.kept[…]" in text and "parameters" in text, text
        report = neurogc("gpu", program.pid, "--json")
        assert report["devices"][0]["other"] == 3 << 20 and report["findings"] == []


@pytest.mark.needs_agent
@pytest.mark.skipif(not binary(), reason="needs the neurogc command")
def test_the_command_says_that_there_is_no_gpu():
    with Running("import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)", policy="observe") as program:
        assert program.line() == "ready" and eventually(lambda: ask(program.pid))
        assert "uses no GPU" in neurogc("gpu", program.pid, expect=1)


@pytest.mark.needs_agent
def test_the_watch_takes_little_time():
    python(MODEL + """
import time
step()
from neurogc import _gpu
# What the made-up allocator takes is not counted: it is counted blocks that make it slow.
_gpu.allocator.figures = lambda device, told=_gpu.allocator.figures(0): told
times = {"reading": [], "passing": []}
for number in range(2000):
    # A reading each time; the blocks at the ends of steps have a limit of their own.
    _gpu._due = 0.0 if number % 2 else float("inf")
    _gpu._left, _gpu.steps._due = 0, float("inf")
    began = time.perf_counter()
    _gpu.step_ended()
    times["reading" if number % 2 else "passing"].append(time.perf_counter() - began)
for kind, limit in (("reading", 50e-6), ("passing", 10e-6)):
    median = sorted(times[kind])[500]
    assert median < limit, (kind, median)
assert len(neurogc.status()["gpu"]["recent"]) == 120
""", PYTHONPATH=TORCH, NEUROGC_POLICY="observe")

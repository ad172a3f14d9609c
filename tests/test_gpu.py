"""Memory of GPUs: what is read, who holds it, which leaks are found, and reports on errors. PyTorch is a made-up one here;
`tests/gpu` does the same with a real one, on a machine with a GPU.
"""

import json

import pytest
from observed import APPS, Running, ask, binary, eventually, neurogc, python

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

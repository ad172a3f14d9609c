"""Reports on errors "CUDA out of memory", and what is kept of steps for them. PyTorch is a made-up one here."""

import json
import sys

import pytest
from observed import python, run
from test_gpu import MODEL, TORCH, train

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
def test_an_error_after_which_an_evaluation_ends_was_handled(tmp_path):
    code = MODEL + FILLED + """
from neurogc._native import agent
handled = []
try:
    fill()
except torch.OutOfMemoryError:
    kept.clear()
handled.append(neurogc.status()["gpu"]["ooms_handled"])
agent.boundary()
handled.append(neurogc.status()["gpu"]["ooms_handled"])
print(json.dumps(handled))
"""
    done = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=TORCH, NEUROGC_POLICY="observe")
    assert (done.returncode, json.loads(done.stdout)) == (0, [0, 1]), done


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

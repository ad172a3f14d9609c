"""`neurogc gpu show`: snapshot files of PyTorch's allocator, whole, cut off, damaged, foreign and hostile."""

import json
import os
import pickle
import sys
from pathlib import Path

import pytest
from observed import binary, neurogc

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))
import snapshot_file

MIB = 1 << 20

pytestmark = [pytest.mark.once, pytest.mark.skipif(not binary(), reason="needs the neurogc command")]


@pytest.fixture
def snapshot():
    return snapshot_file.made()


def written(folder, snapshot, protocol=pickle.DEFAULT_PROTOCOL):
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol=protocol))
    return path


def blocks(snapshot, state, **segment):
    """Blocks in a state, of segments with these values."""
    chosen = (it for it in snapshot["segments"] if all(it[name] == value for name, value in segment.items()))
    return [block for it in chosen for block in it["blocks"] if block["state"] == state]


def total(blocks, name="size"):
    return sum(block[name] for block in blocks)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_gives_the_figures_that_python_counts(tmp_path, snapshot, protocol):
    report = neurogc("gpu", "show", written(tmp_path, snapshot, protocol), "--json")
    assert report["complete"] and report["remarks"] == [] and report["protocol"] == (protocol if protocol > 1 else 0)
    assert [device["device"] for device in report["devices"]] == [0, 1]
    for told in report["devices"]:
        number = told["device"]
        used, free = (blocks(snapshot, state, device=number) for state in ("active_allocated", "inactive"))
        pending = blocks(snapshot, "active_pending_free", device=number)
        segments = [segment for segment in snapshot["segments"] if segment["device"] == number]
        assert told["segments"] == len(segments) and told["reserved_bytes"] == total(segments, "total_size")
        assert (told["allocated_bytes"], told["blocks"]) == (total(used), len(used))
        assert told["requested_bytes"] == total(used, "requested_size")
        assert (told["pending_bytes"], told["active_bytes"]) == (total(pending), total(used) + total(pending))
        cached = sum(it["total_size"] for it in segments if it["active_size"] == 0)
        assert (told["cached_bytes"], told["inactive_bytes"]) == (cached, total(free) - cached)
        assert told["largest_free_bytes"] == max(block["size"] for block in free)
        assert told["fragmentation"] == pytest.approx(1 - told["largest_free_bytes"] / total(free))
        for stream in told["streams"]:
            own = blocks(snapshot, "active_allocated", device=number, stream=stream["stream"])
            assert stream["allocated_bytes"] == total(own)
        assert sum(stream["reserved_bytes"] for stream in told["streams"]) == told["reserved_bytes"]


def test_the_history_is_what_was_recorded(tmp_path, snapshot):
    (history,) = neurogc("gpu", "show", written(tmp_path, snapshot), "--json")["history"]
    trace = snapshot["device_traces"][0]
    before = 6 * (8 * MIB - 100) + 12 * 700 * 1024
    level, levels = before, [before]
    for event in trace:
        level += {"alloc": event["size"], "free_requested": -event["size"]}.get(event["action"], 0)
        levels.append(level)
    assert (history["start_bytes"], history["peak_bytes"], history["end_bytes"]) == (before, max(levels), level)
    assert history["peak_event"] == levels.index(max(levels)) and history["anchored"]
    assert history["events"] == len(trace) and history["ooms"] == 1
    (error,) = history["errors"]
    assert error["asked_bytes"] == 600 * MIB and error["device_free_bytes"] == trace[-1]["device_free"]
    assert error["site"] == "/srv/shop/data.py:7 in load"
    # What stays of each step is the line that keeps it.
    assert history["at_end"][0]["site"] == "/srv/shop/train.py:63 in step"
    assert history["at_end"][0]["blocks"] == 40
    assert history["seconds"] == pytest.approx(1e-6 * (trace[-1]["time_us"] - trace[0]["time_us"]))


def test_the_text_names_lines_of_the_program(tmp_path, snapshot):
    text = neurogc("gpu", "show", written(tmp_path, snapshot))
    for part in (
        "GPU 0: ", "fragmentation", "/srv/shop/train.py:12 in build", "/srv/shop/train.py:63 in step",
        "out of memory at event", "600 MiB asked for", "STREAM", "0x55d0c0de", "largest blocks", "history of GPU 0",
    ):
        assert part in text, (part, text)
    plain = neurogc("gpu", "show", written(tmp_path, snapshot_file.made(history=False)))
    assert "No call stacks are recorded" in plain and "history of" not in plain


def test_segments_alone_are_a_snapshot_too(tmp_path, snapshot):
    report = neurogc("gpu", "show", written(tmp_path, snapshot["segments"]), "--json")
    assert report["devices"][0]["allocated_bytes"] == total(blocks(snapshot, "active_allocated", device=0))


def test_a_page_has_everything_in_it(tmp_path, snapshot):
    out = tmp_path / "out.html"
    assert neurogc("gpu", "show", written(tmp_path, snapshot), "-o", out).strip() == f"wrote {out}"
    page = out.read_text()
    assert "/srv/shop/train.py:63 in step" in page and page.count("</script>") == 2


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_of_a_file_that_was_cut_off_the_beginning_is_told(tmp_path, snapshot, protocol):
    path = written(tmp_path, snapshot, protocol)
    whole = path.read_bytes()
    for share in (0.2, 0.6, 0.95):
        path.write_bytes(whole[: int(share * len(whole))])
        report = neurogc("gpu", "show", path, "--json")
        assert not report["complete"] and "it is cut off at byte" in report["remarks"][0], report["remarks"]
        assert report["devices"][0]["allocated_bytes"] > 0
    text = neurogc("gpu", "show", path)
    assert text.splitlines()[1].startswith("Not all of the file")


def test_damage_is_told_with_its_place(tmp_path, snapshot):
    path = written(tmp_path, snapshot)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 :] = b"\xff" * (len(whole) - len(whole) // 2)
    path.write_bytes(whole)
    report = neurogc("gpu", "show", path, "--json")
    assert not report["complete"] and "byte" in report["remarks"][0]


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.pickle"
    for content, said in (
        (b"", "it is cut off at byte 0"),
        (b"PK\x03\x04" + bytes(100), "a ZIP archive, as torch.save writes"),
        (b"\x1f\x8b\x08" + bytes(100), "compressed by gzip"),
        (b'{"segments": []}', "JSON or text"),
        (pickle.dumps({"state_dict": 1}), "its keys are state_dict"),
        (os.urandom(64).replace(b".", b"\xff"), "no snapshot of PyTorch's allocator"),
    ):
        path.write_bytes(content)
        error = neurogc("gpu", "show", path, expect=1)
        assert said in error and str(path) in error, error
    assert "No such file" in neurogc("gpu", "show", tmp_path / "nothing", expect=1)


def test_nothing_in_a_file_is_run(tmp_path, snapshot):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was-run"),)

    snapshot["external_annotations"] = [Hostile()]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        report = neurogc("gpu", "show", written(tmp_path, snapshot, protocol), "--json")
        (remark,) = report["remarks"]
        assert "posix.mkdir" in remark and "It was not run." in remark
        assert report["complete"] and report["devices"][0]["blocks"] > 0
    assert not (tmp_path / "was-run").exists()


def test_a_long_history_takes_bounded_memory(tmp_path):
    path = written(tmp_path, snapshot_file.made(steps=2000))
    report = json.dumps(neurogc("gpu", "show", path, "--json"))
    (history,) = json.loads(report)["history"]
    assert history["events"] > 15_000 and len(history["course"]) <= 601
    assert len(report) < 2 * MIB

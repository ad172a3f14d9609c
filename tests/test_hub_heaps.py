"""Heap dumps of a real process, taken and explained by a real hub."""

import os
import stat

import pytest
from hub import Console, Hub
from observed import binary, socket_path

pytestmark = [
    pytest.mark.needs_agent,
    pytest.mark.skipif(not binary(), reason="the command has not been built"),
]

# A leak with a name: `made.sessions`, in a module that a person would know.
MODULE = """
import sys, types
made = sys.modules["made"] = types.ModuleType("made")
class Session:
    def __init__(self, number):
        self.user = f"user {number}"
Session.__module__ = "made"
made.Session, made.sessions = Session, []
def leak(count):
    made.sessions += [Session(len(made.sessions) + number) for number in range(count)]
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with Hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture(scope="module")
def program(hub):
    with Console(NEUROGC_POLICY="observe") as program:
        program.do(f"exec({MODULE!r}, globals())")
        program.do("leak(1000)")
        program.id = hub.wait_for(program.pid)["id"]
        yield program


def take(hub, program, **order):
    """Takes a dump and gives its entry."""
    status, entry = hub.ask("POST", f"/api/v1/processes/{program.id}/heap", order)
    assert status == 201, entry
    return entry


def test_a_dump_is_taken_kept_privately_and_removed(hub, program):
    entry = take(hub, program)
    assert (entry["process"], entry["bytes"] > 100_000) == (program.id, True)
    path = hub.data / "heaps" / entry["id"]
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert path.stat().st_size == entry["bytes"]
    # Nothing is left beside the socket of the program.
    left = [name for name in os.listdir(socket_path(program.pid).parent) if name.startswith(f"{program.pid}-")]
    assert left == []
    assert entry in hub.get(f"heaps?process={program.id}")["heaps"]
    assert hub.ask("DELETE", f"/api/v1/heaps/{entry['id']}")[0] == 204
    assert not path.exists() and entry not in hub.get("heaps")["heaps"]


def test_a_leak_is_found_by_place_with_its_holder(hub, program):
    before = take(hub, program)
    program.do("leak(20_000)")
    after = take(hub, program)
    one = f"heaps/{after['id']}"
    report = hub.get(f"{one}/growth?since={before['id']}")["growth"]
    first = report["rows"][0]
    assert (first["place"], first["type"], first["objects"]) == ("made.sessions[…]", "made.Session", 20_000)
    found = hub.get(f"{one}?by=retained")
    assert found["summary"]["pid"] == program.pid and found["summary"]["missing"] is None
    assert any(suspect["text"].startswith("`made.sessions`, a list") for suspect in found["suspects"])
    types = {line["type"]: line["objects"] for line in hub.get(f"{one}?by=objects&top=500")["types"]}
    assert types["made.Session"] == 21_000
    paths = hub.get(f"{one}/path?what=made.Session")["merged"]
    assert (paths["objects"], paths["rows"][0]["path"]) == (21_000, "made.sessions[…]")
    step = hub.get(f"{one}/path?what=made.sessions%5B7%5D.user")["object"]["steps"][-1]
    assert step["path"] == "made.sessions[7].user" and "user 7" in step["what"]
    tree = hub.get(f"{one}/tree")
    below = hub.get(f"{one}/tree?object={tree['rows'][0]['object']}")
    assert tree["rows"][0]["children"] == below["all"] > 0


def test_texts_are_left_out_where_they_are_not_wanted(hub, program):
    entry = take(hub, program, text=False)
    found = hub.get(f"heaps/{entry['id']}")
    assert found["summary"]["texts"] is False
    step = hub.get(f"heaps/{entry['id']}/path?what=made.sessions%5B7%5D.user")["object"]["steps"][-1]
    assert "user 7" not in step["what"]


def test_the_token_for_looking_does_not_open_a_dump(hub, program):
    entry = take(hub, program)
    for method, path in (("GET", f"heaps/{entry['id']}"), ("GET", f"heaps/{entry['id']}/tree"),
                         ("DELETE", f"heaps/{entry['id']}"), ("POST", f"processes/{program.id}/heap")):
        body = {} if method == "POST" else None
        status, said = hub.ask(method, f"/api/v1/{path}", body, token=hub.read_token)
        assert (status, said["error"]["code"]) == (403, "forbidden"), path
    assert hub.ask("GET", "/api/v1/heaps", token=hub.read_token)[0] == 200


def test_a_program_that_has_ended_is_not_dumped(hub):
    with Console() as program:
        found = hub.wait_for(program.pid)
        program.end()
    status, said = hub.ask("POST", f"/api/v1/processes/{found['id']}/heap", {})
    assert status in (409, 422) and len(said["error"]["message"]) > 20

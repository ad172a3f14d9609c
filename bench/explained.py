"""Which share of the resident memory a reading explains, and which share of a heap dump has a name, in programs with large libraries.

    python bench/explained.py [--python EXE] [--only torch]        one program for each of torch (CPU), FastAPI, pandas, and a service
    python bench/explained.py --heap [--python EXE] [--only …]     bytes that a heap dump has under modules, frames and the interpreter

A program whose packages EXE does not have is left out. The agent is started by the program itself, before the libraries are
imported, so that libneurogc_preload.so is not needed. `--heap` needs the command in target/fast.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python"

COMMAND = HOME.parent / "target" / "fast" / "neurogc"

GOAL = 0.95
HEAP_GOAL = 0.99

PROLOGUE = """
import neurogc
neurogc.install(policy="observe")
"""

EPILOGUE = """
import json
print(json.dumps(neurogc.memory.breakdown()))
"""

DUMP = """
import os, sys
neurogc.heap.dump(os.environ["HEAP"])
"""

PROGRAMS = {
    "torch": """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())], torch.nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(30):
    batch, labels = torch.randn(256, 1024), torch.randint(0, 10, (256,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(batch), labels).backward()
    optimizer.step()
""",
    "fastapi": """
import threading, time, urllib.request
import fastapi, uvicorn
app = fastapi.FastAPI()
cache = {}

@app.get("/items/{number}")
async def item(number: int) -> dict:
    cache[number % 2000] = {"number": number, "rows": [str(place) for place in range(40)]}
    return cache[number % 2000]

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
thread = threading.Thread(target=server.run, daemon=True)
thread.start()
while not server.started:
    time.sleep(0.01)
port = server.servers[0].sockets[0].getsockname()[1]
for number in range(2500):
    urllib.request.urlopen(f"http://127.0.0.1:{port}/items/{number}").read()
""",
    # A service with all of them: requests store rows by SQLAlchemy and are answered from a table of pandas.
    "service": """
import threading, time, urllib.request
import fastapi, numpy, pandas, sqlalchemy, uvicorn
from sqlalchemy import orm

class Base(orm.DeclarativeBase):
    pass

class Item(Base):
    __tablename__ = "items"
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]

engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool, connect_args={"check_same_thread": False})
Base.metadata.create_all(engine)
table = pandas.DataFrame({"key": numpy.arange(200_000) % 500, "value": numpy.random.default_rng(0).random(200_000)})
table["name"] = table["key"].map(lambda key: f"name {key}").astype(object)
app = fastapi.FastAPI()
recent = {}

@app.get("/items/{number}")
async def item(number: int) -> dict:
    with orm.Session(engine, expire_on_commit=False) as session:
        row = Item(number=number, name=f"item {number}")
        session.add(row)
        session.commit()
    recent[number % 1000] = row
    return {"name": row.name, "mean": float(table[table["key"] == number % 500]["value"].mean())}

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
thread = threading.Thread(target=server.run, daemon=True)
thread.start()
while not server.started:
    time.sleep(0.01)
port = server.servers[0].sockets[0].getsockname()[1]
for number in range(1500):
    urllib.request.urlopen(f"http://127.0.0.1:{port}/items/{number}").read()
""",
    "pandas": """
import numpy, pandas
table = pandas.DataFrame({"key": numpy.arange(2_000_000) % 5000, "value": numpy.random.default_rng(0).random(2_000_000)})
table["name"] = table["key"].map(lambda key: f"name {key}")
sums = table.groupby("name")["value"].agg(["sum", "mean", "std"])
joined = table.merge(sums, left_on="name", right_index=True)
""",
}


def run(python: str, program: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    words = [python, "-c", PROLOGUE + program]
    return subprocess.run(words, env=environment | {"PYTHONPATH": str(HOME)} | more, capture_output=True, text=True, timeout=300)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or ["it failed"])[-1]


def measure(python: str, program: str) -> dict | str:
    """What a reading at the end of the program says; a text where it could not run."""
    done = run(python, program + EPILOGUE)
    return failure(done) if done.returncode else json.loads(done.stdout.splitlines()[-1])


def heap(python: str, program: str) -> dict | str:
    """What `neurogc heap show` says about a dump at the end of the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.ngch")
        done = run(python, program + DUMP, HEAP=path)
        if done.returncode:
            return failure(done)
        words = [str(COMMAND), "heap", "show", path, "--json", "--from-c", "--garbage"]
        return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def show_heaps(options: argparse.Namespace) -> int:
    print(f"{'program':9} {'objects':>9} {'MB':>6} {'named':>8} {'from C':>8} {'garbage':>8}")
    missed = 0
    for name in [options.only] if options.only else PROGRAMS:
        found = heap(options.python, PROGRAMS[name])
        if isinstance(found, str):
            print(f"{name:9} left out: {found}")
            continue
        told = found["summary"]
        shares = [told[part] / max(1, told["bytes"]) for part in ("named_bytes", "from_c_bytes", "garbage_bytes")]
        missed += shares[0] < HEAP_GOAL
        print(f"{name:9} {told['objects']:9,} {told['bytes'] >> 20:6} " + " ".join(f"{100 * share:6.2f} %" for share in shares), flush=True)
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--heap", action="store_true", help="how much of a heap dump has a name")
    options = parser.parse_args()
    if options.heap:
        return show_heaps(options)
    parts = ["python_used", "python_free", "malloc_used", "malloc_free", "mapped", "stacks", "libraries", "other"]
    print(f"{'program':9} {'RSS MB':>7} {'explained':>10} {'took ms':>8}  MB by part")
    missed = 0
    for name in [options.only] if options.only else PROGRAMS:
        found = measure(options.python, PROGRAMS[name])
        if isinstance(found, str):
            print(f"{name:9} left out: {found}")
            continue
        missed += found["explained"] < GOAL
        told = ", ".join(f"{part} {found[part] >> 20}" for part in parts)
        print(f"{name:9} {found['rss'] >> 20:7} {100 * found['explained']:8.1f} % {found['took_ms']:8.1f}  {told}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

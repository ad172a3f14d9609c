"""Which share of the resident memory a reading explains, in programs with large libraries.

    python bench/explained.py [--python EXE] [--only torch]        one program for each of torch (CPU), FastAPI and pandas

A program whose packages EXE does not have is left out. The agent is started by the program itself, before the libraries are
imported, so that libneurogc_preload.so is not needed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python"

GOAL = 0.95

PROLOGUE = """
import neurogc
neurogc.install(policy="observe")
"""

EPILOGUE = """
import json
print(json.dumps(neurogc.memory.breakdown()))
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
    "pandas": """
import numpy, pandas
table = pandas.DataFrame({"key": numpy.arange(2_000_000) % 5000, "value": numpy.random.default_rng(0).random(2_000_000)})
table["name"] = table["key"].map(lambda key: f"name {key}")
sums = table.groupby("name")["value"].agg(["sum", "mean", "std"])
joined = table.merge(sums, left_on="name", right_index=True)
""",
}


def measure(python: str, program: str) -> dict | str:
    """What a reading at the end of the program says; a text where it could not run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")} | {"PYTHONPATH": str(HOME)}
    words = [python, "-c", PROLOGUE + program + EPILOGUE]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=PROGRAMS)
    options = parser.parse_args()
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

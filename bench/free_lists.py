"""How much of live memory the allocation sampler books to another line than the one that made the object.

    python bench/free_lists.py [PROGRAM]... [--packages FOLDER] [--save]

CPython keeps some freed objects for reuse, without returning their memory to an allocator. The sampler sees a block when it
leaves the allocator, so an object that is made in such a block is booked to the line of an earlier one. tracemalloc is told
of every object that is made, also of these. So each program runs under both. At its end every object that can be reached and whose
block is a sampled one is looked up in both, and the bytes that it stands for count as booked right or wrong.

Blocks that are no objects (the items of lists, the tables of dicts, memory of native code) are not compared: tracemalloc does not
know better where they come from. `live` is what small blocks of Python hold, and `compared` the part of it that is objects.

Programs: fastapi, django, pandas, mypy, and `lists`, which is made to be booked wrong.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import results

HOME = Path(__file__).resolve().parent.parent / "python" / "neurogc"

KINDS = ("dict", "list", "tuple", "float")
"""What is kept for reuse in every version, and most often."""


def lists() -> object:
    """Tuples that are made, dropped, and made again elsewhere."""
    kept = []
    for number in range(100_000):
        dropped = (number, number)
        del dropped
        kept.append((number, number))
    return kept


def fastapi() -> object:
    """Orders that a service parses from requests, checks and keeps."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str
        price: float
        tags: list[str]

    class Order(BaseModel):
        user: str
        items: list[Item]

    app, orders = FastAPI(), {}

    @app.post("/orders")
    def order(order: Order):
        orders[len(orders)] = {"order": order, "total": sum(item.price for item in order.items)}
        return {"number": len(orders), "total": orders[len(orders) - 1]["total"]}

    client = TestClient(app)
    for number in range(300):
        items = [{"name": f"thing {each}", "price": each * 1.5 + number, "tags": [f"t{each}", "new"]} for each in range(8)]
        assert client.post("/orders", json={"user": f"user {number}", "items": items}).status_code == 200
    return app, orders


def django() -> object:
    """Rows of a database that views read, render and keep in a cache."""
    from django.conf import settings

    settings.configure(
        DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF="django_urls", SECRET_KEY="x", INSTALLED_APPS=[],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    )
    import types

    import django as framework

    framework.setup()
    from django.db import connection, models
    from django.http import JsonResponse
    from django.template import Context, Template
    from django.test import Client
    from django.urls import path

    class Article(models.Model):
        title = models.CharField(max_length=80)
        body = models.TextField()
        score = models.FloatField()

        class Meta:
            app_label = "bench"

    with connection.schema_editor() as editor:
        editor.create_model(Article)
    Article.objects.bulk_create(Article(title=f"title {n}", body="text " * 20, score=n / 3) for n in range(900))
    template, cache = Template("{% for a in articles %}<h1>{{ a.title }}</h1>{{ a.score }}{% endfor %}"), {}

    def page(request, number):
        articles = list(Article.objects.filter(id__gt=number * 10)[:10])
        cache[number] = {"articles": articles, "html": template.render(Context({"articles": articles}))}
        return JsonResponse({"length": len(cache[number]["html"])})

    urls = types.ModuleType("django_urls")
    urls.urlpatterns = [path("page/<int:number>", page)]
    sys.modules["django_urls"] = urls
    client = Client()
    for number in range(80):
        assert client.get(f"/page/{number}").status_code == 200
    return cache


def pandas() -> object:
    """A table that is grouped and joined, and whose rows are kept as dicts."""
    import pandas

    rows = [{"user": f"user {n % 500}", "price": n * 0.25, "amount": n % 7} for n in range(6_000)]
    table = pandas.DataFrame(rows)
    sums = table.groupby("user").agg({"price": "sum", "amount": "mean"}).reset_index()
    joined = table.merge(sums, on="user", suffixes=("", "_sum"))
    return joined, joined.to_dict("records")


def mypy() -> object:
    """A type checker's knowledge of a program."""
    from mypy import build
    from mypy.modulefinder import BuildSource
    from mypy.options import Options

    options = Options()
    options.incremental = False
    options.cache_dir = os.devnull
    text = "import argparse, json, logging, subprocess, typing\nx: dict[str, list[int]] = json.loads('')\n"
    return build.build([BuildSource("program.py", "program", text)], options)


PROGRAMS = {"lists": lists, "fastapi": fastapi, "django": django, "pandas": pandas, "mypy": mypy}


def reachable(roots: list[object]) -> dict[int, object]:
    """Every object that the collector's objects refer to, by its address."""
    found = {id(each): each for each in roots}
    todo = list(found.values())
    while todo:
        for each in gc.get_referents(*[todo.pop() for _ in range(min(1_000, len(todo)))]):
            if id(each) not in found:
                found[id(each)] = each
                todo.append(each)
    return found


def compare(kept: object) -> dict:
    """Bytes that objects with a sampled block stand for: by type, all of them and those that are booked to another line."""
    import neurogc
    from neurogc import _agent

    gc.disable()
    # What small blocks of Python hold. tracemalloc's own tables are among the others.
    live = sum(site["bytes"] for site in neurogc.memory.sites() if site["domain"] == "object")
    all_bytes, wrong, where = {}, {}, {}
    for address, each in reachable([kept, *gc.get_objects()]).items():
        site = next(filter(None, (_agent.memory_site(address - before) for before in (0, 16, 32))), None)
        trace = site and tracemalloc.get_object_traceback(each)
        if not trace:
            continue
        kind, (place, weight) = type(each).__name__, site
        truth = f"{trace[0].filename}:{trace[0].lineno}"
        all_bytes[kind] = all_bytes.get(kind, 0) + weight
        if place.rpartition(" in ")[0] != truth:
            wrong[kind] = wrong.get(kind, 0) + weight
            key = f"{truth} booked to {place}"
            where[key] = where.get(key, 0) + weight
    where = dict(sorted(where.items(), key=lambda item: -item[1])[:8])
    return {"live": live, "all": all_bytes, "wrong": wrong, "where": where}


def inside(name: str) -> None:
    """Runs a program in this process, and prints what was found."""
    tracemalloc.start(1)
    kept = PROGRAMS[name]()
    print("\n" + json.dumps(compare(kept)), flush=True)
    # Some of these leave threads and temporary files that are of no interest.
    os._exit(0)


def measure(name: str, packages: str | None) -> dict:
    """Runs a program in a process of its own, sampled closely."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("NEUROGC_", "PYTHON", "LD_"))}
    own |= {
        "PYTHONPATH": ":".join(filter(None, [str(HOME / "_inject"), str(HOME.parent), packages])),
        "NEUROGC_HOME": str(HOME),
        "NEUROGC_POLICY": "observe",
        "NEUROGC_ALLOCATIONS": "native",
        "NEUROGC_SAMPLE_KIB": "1",
        "LD_PRELOAD": str(HOME / "libneurogc_preload.abi3.so"),
    }
    done = subprocess.run([sys.executable, __file__, "--inside", name], env=own, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, found: dict) -> list[str]:
    """What was found in a program, as a row of the table."""

    def share(kinds: list[str]) -> str:
        every = sum(found["all"].get(kind, 0) for kind in kinds)
        return f"{100 * sum(found['wrong'].get(kind, 0) for kind in kinds) / every:.0f} %" if every else ""

    every = sum(found["all"].values())
    others = [kind for kind in found["all"] if kind not in KINDS]
    return [
        f"`{name}`", f"{found['live'] / 1e6:.0f} MB", f"{100 * every / max(found['live'], 1):.0f} %", share(list(found["all"])),
        *(share([kind]) for kind in KINDS), share(others),
    ]


def save(rows: list[list[str]], measured: str) -> None:
    """Writes the table."""
    columns = ["program", "live", "compared", "booked to another line", *(f"of `{kind}`" for kind in KINDS), "of others"]
    command = "python bench/free_lists.py --packages FOLDER --save"
    results.save("free-lists", command, columns, rows, keys=1, measured=measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--packages", help="the folder with FastAPI, Django, pandas and mypy")
    parser.add_argument("--save", action="store_true", help="write the table for the documentation")
    parser.add_argument("--inside", choices=PROGRAMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside)
    rows = []
    for name in given.programs or PROGRAMS:
        found = measure(name, given.packages)
        print(json.dumps({"program": name, **found}, indent=1), flush=True)
        rows.append(row(name, found))
    if given.save:
        save(rows, results.today("one run each"))


if __name__ == "__main__":
    main()

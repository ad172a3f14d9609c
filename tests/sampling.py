"""Running programs whose allocations are sampled, and the native code that surprises a sampler."""

import os
import subprocess
from pathlib import Path

import pytest
from observed import APPS, HOME, binary, python

PRELOAD = HOME / "libneurogc_preload.abi3.so"
HAS_PRELOAD = binary() is not None and PRELOAD.exists()
MODES = ["python", *(["native"] if HAS_PRELOAD else [])]

# Allocators to be preloaded: one of our own, which is strict, and those of others, where they are installed.
OTHER_ALLOCATORS = ["strict", "jemalloc", "tcmalloc", "mimalloc"]
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}

# A tiny interval, so that nearly every block is a sampled one.
TINY = {"NEUROGC_SAMPLE_KIB": "0.293"}

SITES = """
import neurogc.memory, json, sys, gc

def by_function(field="bytes"):
    sums = {}
    for site in neurogc.memory.sites():
        sums[site["function"]] = sums.get(site["function"], 0) + site[field]
    return sums

def near(value, truth, share=0.15):
    assert abs(value / truth - 1) < share, (value, truth)
"""


def sampled(code, *options, mode="native", timeout=90, **env):
    """Runs code under the agent in a mode, with functions to look at the sites."""
    settings = {"NEUROGC_ALLOCATIONS": mode, "NEUROGC_POLICY": "observe", **env}
    return python(SITES + code, *options, timeout=timeout, **settings)


def compiled(folder):
    """The native parts of these tests, by their names."""
    found = {name: folder / f"{source}.so" for name, source in (("strict", "strict_malloc"), ("traps", "native_traps"))}
    for path in found.values():
        words = ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", path, APPS / f"{path.stem}.c", "-lpthread"]
        subprocess.run(words, check=True)
    return found


def preloaded(allocator, built):
    """The library of an allocator. TEST_ALLOCATORS may name a folder that has more of them."""
    if allocator == "strict":
        return str(built["strict"])
    named = os.environ.get("TEST_ALLOCATORS")
    for folder in [*([Path(named)] if named else []), *Path("/usr/lib").glob("*-linux-gnu")]:
        if (folder / LIBRARIES[allocator]).exists():
            return str(folder / LIBRARIES[allocator])
    pytest.skip(f"{LIBRARIES[allocator]} is not installed")

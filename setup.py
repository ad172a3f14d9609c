"""Builds the wheel: the extension module and the `neurogc` command, both from the Cargo workspace."""

import re
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools_rust import Binding, RustBin, RustExtension

# One extension file serves every CPython with a GIL from 3.10 on. Free-threaded builds and PyPy get none: all that
# their agent may use is the public API, for which the package has a stand-in in Python, and an extension would bring
# native code into processes that it was never tested in.
HAS_STABLE_ABI = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def version() -> str:
    """The version of the Cargo workspace: it is written down once."""
    manifest = (Path(__file__).parent / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^\[workspace\.package\][^\[]*?^version = "([^"]+)"', manifest, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("setup.py: Cargo.toml has no version under [workspace.package]")
    return found[1]


CARGO = {"args": ["--profile", "release"], "cargo_manifest_args": ["--locked"], "debug": False}
AGENT = RustExtension("neurogc._agent", path="crates/agent/Cargo.toml", **CARGO)
# No module of Python, but a library that `neurogc run` has the dynamic linker load: it is to lie beside the agent. It has
# no standard library, and so cannot unwind.
PRELOAD = RustExtension(
    "neurogc.libneurogc_preload",
    path="crates/preload/Cargo.toml",
    binding=Binding.NoBinding,
    rustc_flags=["-Cpanic=abort"],
    **CARGO,
)
COMMAND = RustBin("neurogc", path="crates/cli/Cargo.toml", **CARGO)

setup(
    version=version(),
    rust_extensions=[COMMAND, AGENT, PRELOAD] if HAS_STABLE_ABI else [COMMAND],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if HAS_STABLE_ABI else {},
)

"""The environment of a program under a policy, as `neurogc run` makes it."""

from __future__ import annotations

import os
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "python" / "neurogc"


def environment(policy: str | None) -> dict[str, str]:
    """The environment of a program; None is a program left alone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    env.pop("PYTHONPATH", None)
    if policy is not None:
        env |= {"PYTHONPATH": str(HOME / "_inject"), "NEUROGC_HOME": str(HOME), "NEUROGC_POLICY": policy}
        env["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    return env

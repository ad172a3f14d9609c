"""CPython's own tests of what a collector can disturb, run under `neurogc run --policy gap` (make suites).

    python tools/cpython_suites.py [--policy gap] [TAG…]

Each file runs in one process, without regrtest's workers, which would not load the agent. A file that fails is run
again without the agent, and is only counted against us if it passes there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import interpreters
from interpreters import ROOT

SUITES = ["test_gc", "test_weakref", "test_generators", "test_finalization", "test_threading", "test_asyncio"]
BINARY = Path(os.environ.get("NEUROGC_BIN", ROOT / "target" / "fast" / "neurogc"))
LIMIT_S = 900


def passes(words: list[str]) -> tuple[bool, str]:
    """Runs a command and gives whether it succeeded, and the end of its output."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return False, f"no end within {LIMIT_S} s"
    return done.returncode == 0, (done.stdout + done.stderr)[-1500:]


def main() -> int:
    """Runs every suite on every interpreter that has it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="gap")
    parser.add_argument("tags", nargs="*", help="interpreters, for instance cp312; all without")
    options = parser.parse_args()
    passed = failed = skipped = 0
    for interpreter in interpreters.find():
        if options.tags and interpreter.tag not in options.tags:
            continue
        python = str(interpreter.executable)
        for suite in SUITES:
            plain = [python, "-m", "test", "--timeout", "300", suite]
            if not passes([python, "-c", f"import test.{suite}"])[0]:
                print(f"{interpreter.tag} {suite}: not part of this installation", flush=True)
                skipped += 1
                continue
            began = time.monotonic()
            good, output = passes([str(BINARY), "run", "--policy", options.policy, "--", *plain])
            note = f"{time.monotonic() - began:.0f} s"
            if not good and not passes(plain)[0]:
                note = "fails without the agent, too"
                skipped += 1
            elif good:
                passed += 1
            else:
                note = f"FAILED\n{output}"
                failed += 1
            print(f"{interpreter.tag} {suite}: {note}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

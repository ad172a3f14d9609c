"""Writes docs/cli.md from what `neurogc --help` says, or with --check tells whether it is still true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fast" / "neurogc"

OPENING = """# The `neurogc` command

<!-- Written by `python tools/cli_reference.py` from the command's own help. Change it in crates/cli. -->

Exit codes: 0 done, 1 failed, 2 wrong usage. `neurogc run` replaces itself with the command it starts, so there exit \
code and signals are that command's own.

"""


def help_of(words: list[str]) -> str:
    """The help of one verb, with lines as long as on a wide terminal."""
    env = dict(os.environ, COLUMNS="100", NO_COLOR="1")
    done = subprocess.run([BINARY, *words, "--help"], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"neurogc {' '.join(words)} --help ended with {done.returncode}: {done.stderr.strip()}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def verbs_of(text: str) -> list[str]:
    """The verbs that a help text lists."""
    listed = re.search(r"^Commands:\n((?:[ \t]+.*\n|\n)*)", text + "\n", re.MULTILINE)
    names = re.findall(r"^  (\w[\w-]*)(?:  |$)", listed[1], re.MULTILINE) if listed else []
    return [name for name in names if name != "help"]


def sections(words: list[str]) -> list[str]:
    """This verb's section and those of the verbs below it."""
    text = help_of(words)
    title = " ".join(["neurogc", *words])
    below = [section for verb in verbs_of(text) for section in sections([*words, verb])]
    return [f"## `{title}`\n\n```text\n{text}\n```\n", *below]


def main() -> int:
    """Writes or checks."""
    if not BINARY.exists():
        sys.exit(f"{BINARY} is not built: run `make build`")
    page = OPENING + "\n".join(sections([]))
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(page, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/cli.md differs from `neurogc --help`: run `python tools/cli_reference.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())

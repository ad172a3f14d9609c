"""Texts that are cut, joined and replaced."""

import pyperf

words = [f"word{n}" for n in range(300)]


def round():
    text = " ".join(words)
    pieces = [piece.title() + "-" + piece[::-1] for piece in text.split()]
    "\n".join(pieces).replace("Word", "w").encode().decode()


pyperf.Runner().bench_func("texts", round)

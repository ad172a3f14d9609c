"""The serving story: a model explains its answers token by token, beside a large store of features.

Each request scores some dozens of tokens. A token's score holds the scores of its pieces, and every piece knows its
parent: cycles, which only the collector can free. The last few hundred explanations are kept in a cache, so
they grow old before they die. The feature store stays for ever, and every full collection walks it.
"""

from __future__ import annotations

import math

import stage

FEATURES = 300_000
KEPT = 400
STEPS = 32


class Feature:
    """A row of the feature store: three objects that the collector tracks."""

    __slots__ = ("neighbours", "values")

    def __init__(self, number: int, before: Feature | None):
        self.values = {"id": number, "weight": math.sin(number)}
        self.neighbours = [before]


class Score:
    """The share of a token, or of a piece of it, in the answer."""

    __slots__ = ("parent", "pieces", "share")

    def __init__(self, parent: Score | None, share: float):
        self.parent = parent
        self.pieces: list[Score] = []
        self.share = share


def feature_store(count: int) -> list[Feature]:
    """What a service loads once and keeps."""
    store = [Feature(0, None)]
    for number in range(1, count):
        store.append(Feature(number, store[number // 2]))
    return store


def explain(store: list[Feature], number: int, steps: int = STEPS) -> Score:
    """Scores the tokens of one text, with so many steps of computation for each piece."""
    text = Score(None, 0.0)
    for token in range(24 + number % 40):
        of_token = Score(text, 0.0)
        text.pieces.append(of_token)
        for piece in range(6):
            feature = store[(number * 7919 + token * 104_729 + piece * 1299) % len(store)]
            share = 0.0
            for step in range(steps):
                share += math.tanh(feature.values["weight"] * (step + 1)) / (piece + 1)
            of_token.pieces.append(Score(of_token, share))
            of_token.share += share
        text.share += of_token.share
    return text


class Explainer:
    """The service without its server: the demo uses it too. One explanation in `keep_one_in` is kept, the others die young."""

    def __init__(self, features: int = FEATURES, kept: int = KEPT, keep_one_in: int = 1, steps: int = STEPS):
        self.store = feature_store(stage.scaled(features))
        self.kept: list[Score | None] = [None] * kept
        self.keep_one_in = keep_one_in
        self.steps = steps

    def answer(self, number: int) -> dict:
        """One request."""
        explained = explain(self.store, number, self.steps)
        turn, others = divmod(number, self.keep_one_in)
        if others == 0:
            self.kept[turn % len(self.kept)] = explained
        return {"number": number, "score": explained.share, "tokens": [token.share for token in explained.pieces]}


def application(explainer: Explainer):
    """The ASGI application."""
    from fastapi import FastAPI

    api = FastAPI()

    @api.get("/explain/{number}")
    async def answer(number: int):
        return explainer.answer(number)

    return api


def main(loop: str = "asyncio", **sizes: int) -> None:
    """Serves until it is terminated, on an event loop of uvicorn's choice where `loop` is `auto`."""
    stage.begin()
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        stage.skip(f"{error.name} is not installed: pip install fastapi uvicorn")
    app = application(Explainer(**sizes))
    stage.loaded()
    stage.serve_asgi(app, loop)


if __name__ == "__main__":
    main()

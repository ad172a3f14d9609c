"""The service of `neurogc demo`: that of `attribution`, with nothing but the standard library."""

import attribution
import stage

if __name__ == "__main__":
    stage.begin()
    explainer = attribution.Explainer()
    stage.loaded()

    async def handle(path: str) -> dict:
        """`/explain/42`."""
        return explainer.answer(int(path.rpartition("/")[2]))

    stage.serve_plain(handle)

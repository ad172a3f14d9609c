"""Types of the questions about memory."""

from typing import Any

__all__ = ["breakdown", "growth", "sites", "trim"]

class growth:
    live: int
    peak: int
    lines: list[tuple[int, int, str | None, int | None, str | None]]
    types: list[tuple[int, int, str]]
    def __enter__(self) -> growth: ...
    def __exit__(self, *error: object) -> None: ...

def breakdown() -> dict[str, Any]: ...
def trim() -> dict[str, float]: ...
def sites(since: float | None = None) -> list[dict[str, Any]]: ...

"""Types of the questions about memory."""

from typing import Any

__all__ = ["growth", "sites"]

class growth:
    live: int
    peak: int
    lines: list[tuple[int, int, str | None, int | None, str | None]]
    types: list[tuple[int, int, str]]
    def __enter__(self) -> growth: ...
    def __exit__(self, *error: object) -> None: ...

def sites(since: float | None = None) -> list[dict[str, Any]]: ...

"""Types of the questions about memory."""

from typing import Any

__all__ = ["sites"]

def sites(since: float | None = None) -> list[dict[str, Any]]: ...

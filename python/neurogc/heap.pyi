import os
from typing import TypedDict

__all__ = ["count", "dump"]

class DumpFigures(TypedDict):
    objects: int
    bytes: int
    pause_ms: float
    flight_ms: float
    huge_pages: int
    huge_pages_ms: float
    huge_pages_why_not: str | None

class TypeCount(TypedDict):
    count: int
    bytes: int

def dump(path: str | bytes | os.PathLike[str], *, text: bool = True) -> DumpFigures: ...
def count() -> dict[str, TypeCount]: ...

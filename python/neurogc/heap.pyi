import os
from typing import TypedDict

__all__ = ["count", "dump"]

class DumpFigures(TypedDict):
    objects: int
    bytes: int
    pause_ms: float
    flight_ms: float

class TypeCount(TypedDict):
    count: int
    bytes: int

def dump(path: str | bytes | os.PathLike[str], *, text: bool = True) -> DumpFigures: ...
def count() -> dict[str, TypeCount]: ...

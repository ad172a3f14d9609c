"""Types of the WSGI middleware."""

from typing import Any, Callable, Iterable

class Middleware:
    app: Any
    def __init__(self, app: Any) -> None: ...
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]: ...

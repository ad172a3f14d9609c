"""Types of the ASGI middleware."""

from typing import Any, Awaitable, Callable, MutableMapping

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

COUNTED: str

def counting(call: Any) -> Any: ...
def until_last_byte(send: _Send, mark: Any) -> _Send: ...

class Middleware:
    app: Any
    def __init__(self, app: Any) -> None: ...
    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

"""An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3.

- `HTTPConnection`: the shape of `http.client`, with many requests at a time on one connection.
- `Client`: connections kept and shared, by any number of threads.
- `AsyncClient`: the same for asyncio.
- `trilane.client.requests` and `trilane.client.httpx`: under the libraries of those names.

Every error is an `Error`, and also the builtin that it is like.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from . import errors
from .errors import *  # noqa: F403 - `__all__` of `errors` says which

if TYPE_CHECKING:
    from ._aio import AsyncClient, AsyncResponse
    from ._aio.events import AsyncEventStream
    from ._aio.websocket import AsyncWebSocket as AsyncWebSocket
    from ._flow.events import Event
    from ._flow.timeouts import Timeouts
    from ._pool import Client, Response
    from ._pool.events import EventStream
    from ._pool.websocket import WebSocket as WebSocket
    from .http import HTTPConnection, HTTPResponse, HTTPSConnection

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncResponse",
    "Client",
    "Event",
    "EventStream",
    "HTTPConnection",
    "HTTPResponse",
    "HTTPSConnection",
    "Response",
    "Timeouts",
]
__all__ += errors.__all__


# Imported when they are asked for: a program that uses one of them does not pay for the others.
_HOMES: Final = {
    "AsyncClient": "._aio",
    "AsyncEventStream": "._aio.events",
    "AsyncResponse": "._aio",
    # These two need the library of an extra, so `import *` leaves them out.
    "AsyncWebSocket": "._aio.websocket",
    "Client": "._pool",
    "Event": "._flow.events",
    "EventStream": "._pool.events",
    "HTTPConnection": ".http",
    "HTTPResponse": ".http",
    "HTTPSConnection": ".http",
    "Response": "._pool",
    "Timeouts": "._flow.timeouts",
    "WebSocket": "._pool.websocket",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

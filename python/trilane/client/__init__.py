"""An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3.

- `HTTPConnection`: the shape of `http.client`, with many requests at a time on one connection.
- `Client`: connections kept and shared, by any number of threads.
- `AsyncClient`: the same for asyncio.
- `trilane.client.requests` and `trilane.client.httpx`: under the libraries of those names.
- `trilane.client.hyper`: the names of hyper.

Every error is an `Error`, and also the builtin that it is like.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from . import errors

try:
    importlib.import_module("trilane._core")
except ImportError as error:
    if "subinterpreter" not in str(error):
        raise
    raise ImportError(
        "trilane.client cannot be imported in an isolated interpreter, which has a lock of its own:"
        " what binds Rust to Python does not support that yet"
        " (https://github.com/PyO3/pyo3/issues/576). Use threads, which wait side by side, or"
        " processes"
    ) from error

if TYPE_CHECKING:
    from ._aio import AsyncClient, AsyncResponse
    from ._aio.events import AsyncEventStream
    from ._aio.websocket import AsyncWebSocket as AsyncWebSocket
    from ._flow.cookies import Cookies
    from ._flow.events import Event
    from ._flow.records import HTTPSRecord
    from ._flow.repeating import Retries
    from ._flow.timeouts import Timeouts
    from ._pool import Client, Response
    from ._pool.events import EventStream
    from ._pool.websocket import WebSocket as WebSocket
    from .auth import BasicAuth, BearerAuth, DigestAuth, NetRCAuth
    from .cached import Cache as Cache
    from .errors import *  # noqa: F403 - `__all__` of `errors` says which
    from .errors import InsecureWarning
    from .http import HTTPConnection, HTTPResponse, HTTPSConnection

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncResponse",
    "BasicAuth",
    "BearerAuth",
    "Client",
    "Cookies",
    "DigestAuth",
    "Event",
    "EventStream",
    "HTTPConnection",
    "HTTPResponse",
    "HTTPSConnection",
    "HTTPSRecord",
    "InsecureWarning",
    "NetRCAuth",
    "Response",
    "Retries",
    "Timeouts",
]
__all__ += errors.__all__


_AS_FUNCTIONS: Final = frozenset(
    {"delete", "get", "head", "options", "patch", "post", "put", "request", "stream"}
)
"""What Requests and HTTPX have in their modules too."""


# Imported when they are asked for: a program that uses one of them does not pay for the others.
_HOMES: Final[dict[str, str]] = {
    "AsyncClient": "._aio",
    "AsyncEventStream": "._aio.events",
    "AsyncResponse": "._aio",
    # These two need the library of an extra, so `import *` leaves them out.
    "AsyncWebSocket": "._aio.websocket",
    "BasicAuth": ".auth",
    "BearerAuth": ".auth",
    # It needs the library of an extra too.
    "Cache": ".cached",
    "Client": "._pool",
    "Cookies": "._flow.cookies",
    "DigestAuth": ".auth",
    "Event": "._flow.events",
    "EventStream": "._pool.events",
    "HTTPConnection": ".http",
    "HTTPResponse": ".http",
    "HTTPSConnection": ".http",
    "HTTPSRecord": "._flow.records",
    "InsecureWarning": ".errors",
    "NetRCAuth": ".auth",
    "Response": "._pool",
    "Retries": "._flow.repeating",
    "Timeouts": "._flow.timeouts",
    "WebSocket": "._pool.websocket",
} | dict.fromkeys(errors.__all__, ".errors")


if not TYPE_CHECKING:  # For checkers there is no other name.

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            way_out = ""
            if name in _AS_FUNCTIONS:
                way_out = f": make a client once, and use Client().{name}()"
            elif name.lower() == "session":
                way_out = ": Client is what Requests calls so"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{way_out}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name], __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

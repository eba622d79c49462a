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

if TYPE_CHECKING:
    from ._aio import AsyncClient, AsyncResponse
    from ._flow.timeouts import Timeouts
    from ._pool import Client, Response
    from .errors import (
        ClientClosed,
        ConnectFailed,
        ConnectionClosed,
        ConnectionRefused,
        ConnectTimeout,
        DecodingError,
        Error,
        Full,
        GoAway,
        IncompleteBody,
        InvalidRequest,
        LimitExceeded,
        LocalError,
        PoolTimeout,
        ProxyError,
        ReadTimeout,
        RemoteError,
        RemoteProtocolError,
        ResolveError,
        StreamReset,
        Timeout,
        TLSError,
        VersionUnavailable,
        WriteTimeout,
    )
    from .http import HTTPConnection, HTTPResponse, HTTPSConnection

__all__ = [
    "AsyncClient",
    "AsyncResponse",
    "Client",
    "ClientClosed",
    "ConnectFailed",
    "ConnectTimeout",
    "ConnectionClosed",
    "ConnectionRefused",
    "DecodingError",
    "Error",
    "Full",
    "GoAway",
    "HTTPConnection",
    "HTTPResponse",
    "HTTPSConnection",
    "IncompleteBody",
    "InvalidRequest",
    "LimitExceeded",
    "LocalError",
    "PoolTimeout",
    "ProxyError",
    "ReadTimeout",
    "RemoteError",
    "RemoteProtocolError",
    "ResolveError",
    "Response",
    "StreamReset",
    "TLSError",
    "Timeout",
    "Timeouts",
    "VersionUnavailable",
    "WriteTimeout",
]


# Imported when they are asked for: a program that uses one of them does not pay for the others.
_HOMES: Final = {
    "AsyncClient": "_aio",
    "AsyncResponse": "_aio",
    "Client": "_pool",
    "HTTPConnection": "http",
    "HTTPResponse": "http",
    "HTTPSConnection": "http",
    "Response": "_pool",
    "Timeouts": "_flow.timeouts",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f".{_HOMES.get(name, 'errors')}", __name__)
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

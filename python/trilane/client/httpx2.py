"""Transports for HTTPX2: its clients over HTTP/1.1, HTTP/2 and HTTP/3.

    client = httpx2.Client(transport=Transport())
    client = httpx2.AsyncClient(transport=AsyncTransport())

HTTPX2 keeps redirects, cookies, authentication, decoding and its own exceptions. `verify`, `cert`,
limits and proxies are arguments of the transport: HTTPX2 does not hand its own over to one.
`trilane.client.httpx` is the same for HTTPX.
"""

from __future__ import annotations

import httpx2  # type: ignore[import-not-found, unused-ignore]

from trilane.client._adapters.httpx_family import (
    AsyncioStream,
    AsyncioTransport,
    BlockingStream,
    BlockingTransport,
)

__all__ = ["AsyncTransport", "Transport"]


class _Stream(BlockingStream, httpx2.SyncByteStream):  # type: ignore[misc, unused-ignore]
    pass


class _AsyncStream(AsyncioStream, httpx2.AsyncByteStream):  # type: ignore[misc, unused-ignore]
    pass


class Transport(BlockingTransport, httpx2.BaseTransport):  # type: ignore[misc, unused-ignore]
    """For `httpx2.Client`: threads share connections. See `Family` for its arguments."""

    library = httpx2
    stream_class = _Stream


class AsyncTransport(AsyncioTransport, httpx2.AsyncBaseTransport):  # type: ignore[misc, unused-ignore]
    """For `httpx2.AsyncClient`, on asyncio or Trio: thousands of tasks share connections.

    It belongs to the event loop of its first request. See `Family` for its arguments.
    """

    library = httpx2
    stream_class = _AsyncStream

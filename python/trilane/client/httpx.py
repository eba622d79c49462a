"""Transports for HTTPX: its clients over HTTP/1.1, HTTP/2 and HTTP/3.

    client = httpx.Client(transport=Transport())
    client = httpx.AsyncClient(transport=AsyncTransport())

HTTPX keeps redirects, cookies, authentication, decoding and its own exceptions. `verify`, `cert`,
limits and proxies are arguments of the transport: HTTPX does not hand its own over to one.
`trilane.client.httpx2` is the same for HTTPX2.
"""

from __future__ import annotations

import httpx

from trilane.client._adapters.httpx_family import (
    AsyncioStream,
    AsyncioTransport,
    BlockingStream,
    BlockingTransport,
)

__all__ = ["AsyncTransport", "Transport"]


class _Stream(BlockingStream, httpx.SyncByteStream):
    pass


class _AsyncStream(AsyncioStream, httpx.AsyncByteStream):
    pass


class Transport(BlockingTransport, httpx.BaseTransport):
    """For `httpx.Client`: threads share connections. See `Family` for its arguments."""

    library = httpx
    stream_class = _Stream


class AsyncTransport(AsyncioTransport, httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient`, on asyncio or Trio: thousands of tasks share connections.

    It belongs to the event loop of its first request. See `Family` for its arguments.
    """

    library = httpx
    stream_class = _AsyncStream

"""The transports of pyqwest for HTTPX's clients."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pyqwest"))

import httpx
import pyqwest
from contender import serve, settings, spoken
from pyqwest.httpx import AsyncPyqwestTransport, PyqwestTransport

from trilane_contender import Plan
from trilane_contender.reqwest import broken

__all__ = ["serve", "transport"]

NAMES = {"h1": b"HTTP/1.1", "h2": b"HTTP/2", "h3": b"HTTP/3"}


def told(response: Any) -> Any:
    """HTTPX's response, with the version that pyqwest knows of and its transport does not tell."""
    version = spoken(response.stream._response.http_version)  # noqa: SLF001 - there is no other way
    response.extensions["http_version"] = NAMES.get(version, b"unknown")
    return response


@contextmanager
def explained() -> Iterator[None]:
    """Exceptions of the transport, but for its timeouts, by what their text says of the cause."""
    try:
        yield
    except httpx.TimeoutException:
        raise
    except httpx.TransportError as error:
        raise broken(error) from error


class Transport(PyqwestTransport):
    """pyqwest's, for `httpx.Client`."""

    def handle_request(self, request: Any) -> Any:
        """As pyqwest does it."""
        with explained():
            return told(super().handle_request(request))


class AsyncTransport(AsyncPyqwestTransport):
    """pyqwest's, for `httpx.AsyncClient`."""

    async def handle_async_request(self, request: Any) -> Any:
        """As pyqwest does it."""
        with explained():
            return told(await super().handle_async_request(request))


def transport(plan: Plan, asynchronous: bool) -> Any:
    """pyqwest's transport, with what the plan says."""
    given = settings(plan) | {"enable_gzip": False}  # HTTPX decodes.
    if asynchronous:
        return AsyncTransport(pyqwest.HTTPTransport(**given))
    return Transport(pyqwest.SyncHTTPTransport(**given))

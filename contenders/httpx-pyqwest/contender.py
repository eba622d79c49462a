# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "certifi==2026.10.18",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hdrhistogram==0.10.8",
#     "hpack==4.2.0",
#     "httpcore==1.0.9",
#     "httpx==0.28.1",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "opentelemetry-api==1.45.2",
#     "pbr==7.1.3",
#     "pyqwest==0.12.0",
#     "setuptools==84.2.1",
#     "typing-extensions==4.16.0",
# ]
#
# [tool.trilane]
# name = "httpx-pyqwest"
# title = "HTTPX over pyqwest"
# library = "httpx"
# note = "HTTPX's clients on pyqwest's own transports for it; OpenTelemetry is off"
# versions = ["h1", "h2", "h2c", "h3"]
#
# [tool.trilane.strategies]
# h1 = ["serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio"]
# h2 = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# h2c = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# h3 = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""HTTPX's clients with the transports of pyqwest in the place of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "harness"), str(HERE / "pyqwest")]

import httpx
import pyqwest
from contender import ASKED, settings, spoken
from pyqwest.httpx import AsyncPyqwestTransport, PyqwestTransport

from trilane_contender import Plan, run
from trilane_contender.httpx_family import library
from trilane_contender.reqwest import broken, without_proxies

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


if __name__ == "__main__":
    without_proxies()
    code = run(library("httpx", transport, shared_by_threads=frozenset(ASKED)))
    sys.stdout.flush()
    sys.stderr.flush()
    # As in the contender `pyqwest`: its own threads may end the interpreter otherwise.
    os._exit(code)

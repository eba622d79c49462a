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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import httpx
import pyqwest
from pyqwest import HTTPVersion
from pyqwest.httpx import AsyncPyqwestTransport, PyqwestTransport

from trilane_contender import Plan, run
from trilane_contender.httpx_family import library
from trilane_contender.reqwest import broken, without_proxies

ASKED = {
    "h1": HTTPVersion.HTTP1,
    "h2": HTTPVersion.HTTP2,
    "h2c": HTTPVersion.HTTP2,
    "h3": HTTPVersion.HTTP3,
}
SPOKEN = (
    (HTTPVersion.HTTP1, b"HTTP/1.1"),
    (HTTPVersion.HTTP2, b"HTTP/2"),
    (HTTPVersion.HTTP3, b"HTTP/3"),
)


def settings(plan: Plan) -> dict[str, Any]:
    """What both transports are given."""
    return {
        "enable_brotli": False,
        "enable_gzip": False,  # HTTPX decodes.
        "enable_otel": False,
        "enable_zstd": False,
        "follow_redirects": False,
        "http_version": ASKED[plan.version],
        "max_connections_per_address": plan.pool,
        "pool_max_idle_per_host": plan.pool,
        "timeout": plan.timeout_s,
        "tls_ca_cert": None if plan.cacert is None else Path(plan.cacert).read_bytes(),
        "tls_include_system_certs": plan.cacert is None,
    }


def told(response: Any) -> Any:
    """HTTPX's response, with the version that pyqwest knows of and its transport does not tell."""
    version = response.stream._response.http_version  # noqa: SLF001 - there is no other way
    name = next((name for known, name in SPOKEN if version == known), b"unknown")
    response.extensions["http_version"] = name
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
    if asynchronous:
        return AsyncTransport(pyqwest.HTTPTransport(**settings(plan)))
    return Transport(pyqwest.SyncHTTPTransport(**settings(plan)))


if __name__ == "__main__":
    without_proxies()
    code = run(library("httpx", transport, shared_by_threads=frozenset(ASKED)))
    sys.stdout.flush()
    sys.stderr.flush()
    # As in the contender `pyqwest`: its own threads may end the interpreter otherwise.
    os._exit(code)

# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "opentelemetry-api==1.45.2",
#     "pbr==7.1.3",
#     "pyqwest==0.12.0",
#     "setuptools==84.2.1",
#     "typing-extensions==4.16.0",
# ]
#
# [tool.trilane]
# name = "pyqwest"
# title = "pyqwest"
# library = "pyqwest"
# note = "bodies are streamed, as only a streamed response tells its version; OpenTelemetry is off"
# versions = ["h1", "h2", "h2c", "h3"]
# strategies = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""pyqwest: reqwest and hyper behind a synchronous and an asynchronous client."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import pyqwest
from pyqwest import HTTPVersion

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.reqwest import broken, without_proxies

ASKED = {
    "h1": HTTPVersion.HTTP1,
    "h2": HTTPVersion.HTTP2,
    "h2c": HTTPVersion.HTTP2,
    "h3": HTTPVersion.HTTP3,
}
SPOKEN = ((HTTPVersion.HTTP1, "h1"), (HTTPVersion.HTTP2, "h2"), (HTTPVersion.HTTP3, "h3"))
FAILURES = (OSError, pyqwest.ReadError, pyqwest.WriteError)


def settings(plan: Plan) -> dict[str, Any]:
    """What both transports are given."""
    return {
        "enable_brotli": False,
        "enable_gzip": plan.gzip,
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


def spoken(version: HTTPVersion) -> str:
    """The version of a response as the lab names it."""
    return next((name for known, name in SPOKEN if version == known), str(version))


class Client:
    """One `SyncClient`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._transport = pyqwest.SyncHTTPTransport(**settings(plan))
        self._client = pyqwest.SyncClient(self._transport)

    def fetch(self, path: str) -> Answer:
        """`client.stream`, read to its end."""
        plan = self._plan
        try:
            with self._client.stream(
                plan.method, plan.target + path, plan.headers, plan.body
            ) as response:
                body = b"".join(response.content)
                return Answer(response.status, spoken(response.http_version), body)
        except FAILURES as error:
            raise broken(error) from error

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()


class AsyncClient:
    """One `Client` for an event loop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._transport = pyqwest.HTTPTransport(**settings(plan))
        self._client = pyqwest.Client(self._transport)

    async def fetch(self, path: str) -> Answer:
        """`await client.stream`, read to its end."""
        plan = self._plan
        try:
            async with self._client.stream(
                plan.method, plan.target + path, plan.headers, plan.body
            ) as response:
                body = b"".join([part async for part in response.content])
                return Answer(response.status, spoken(response.http_version), body)
        except FAILURES as error:
            raise broken(error) from error

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def serve(library: Library) -> NoReturn:
    """Run it, without the proxies of this machine, and end the process."""
    without_proxies()
    code = run(library)
    sys.stdout.flush()
    sys.stderr.flush()
    # Its own threads outlive its transport, and one that wants the interpreter's lock while the
    # interpreter ends aborts the process: seen on a busy machine.
    os._exit(code)


if __name__ == "__main__":
    serve(
        Library(
            distribution="pyqwest",
            client=Client,
            async_client=AsyncClient,
            shared_by_threads=frozenset(ASKED),
        )
    )

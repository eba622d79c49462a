# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "pyreqwest==0.15.1",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "pyreqwest"
# title = "pyreqwest"
# library = "pyreqwest"
# versions = ["h1", "h2", "h2c"]
# strategies = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""pyreqwest: reqwest and hyper behind a synchronous and an asynchronous client."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import pyreqwest.exceptions as failures
from pyreqwest.client import ClientBuilder, SyncClientBuilder

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.reqwest import broken

SPOKEN = {"HTTP/1.1": "h1", "HTTP/2.0": "h2"}
# Bytes of a body that is read in pieces.
PIECE = 65_536


def made(builder: Any, plan: Plan) -> Any:
    """The client, with what the plan says and none of the library's defaults."""
    builder = (
        builder.timeout(timedelta(seconds=plan.timeout_s))
        .default_headers(dict(plan.headers))
        .follow_redirects(False)
        .referer(False)
        .no_proxy()
        .gzip(plan.gzip)
        .brotli(False)
        .zstd(False)
        .deflate(False)
        .pool_max_idle_per_host(plan.pool)
        .pool_idle_timeout(None)
    )
    # A limit of connections is one of requests here: over HTTP/2 they share a connection anyway.
    if plan.version == "h1":
        limit = timedelta(seconds=plan.queue_s)
        builder = builder.http1_only().max_connections(plan.pool).pool_timeout(limit)
    else:
        builder = builder.http2_prior_knowledge()
    if plan.cacert is not None:
        builder = builder.add_root_certificate_pem(Path(plan.cacert).read_bytes())
    return builder.build()


def request(client: Any, plan: Plan, path: str) -> Any:
    """The plan's request, being built."""
    building = client.request(plan.method, plan.target + path)
    return building if plan.body is None else building.body_bytes(plan.body)


def answer(response: Any, body: bytes, size: int | None = None) -> Answer:
    """What it has answered."""
    return Answer(response.status, SPOKEN.get(response.version, response.version), body, size)


def cannot(plan: Plan) -> str | None:
    """What is not written here."""
    return "files are not sent by this contender" if plan.body_file else None


class Client:
    """One `SyncClient`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = made(SyncClientBuilder(), plan)

    def fetch(self, path: str) -> Answer:
        """Build and send; with `discard` the body is read in pieces."""
        plan = self._plan
        try:
            if not plan.discard:
                response = request(self._client, plan, path).build().send()
                return answer(response, response.bytes().to_bytes())
            size = 0
            with request(self._client, plan, path).build_streamed() as response:
                while piece := response.body_reader.read(PIECE):
                    size += len(piece)
                return answer(response, b"", size)
        except failures.PyreqwestError as error:
            raise broken(error) from error

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class AsyncClient:
    """One `Client`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = made(ClientBuilder(), plan)

    async def fetch(self, path: str) -> Answer:
        """Build and send; with `discard` the body is read in pieces."""
        plan = self._plan
        try:
            if not plan.discard:
                response = await request(self._client, plan, path).build().send()
                return answer(response, (await response.bytes()).to_bytes())
            size = 0
            async with request(self._client, plan, path).build_streamed() as response:
                while piece := await response.body_reader.read(PIECE):
                    size += len(piece)
                return answer(response, b"", size)
        except failures.PyreqwestError as error:
            raise broken(error) from error

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="pyreqwest",
                client=Client,
                async_client=AsyncClient,
                shared_by_threads=frozenset({"h1", "h2", "h2c"}),
                streams_bodies=True,
                cannot=cannot,
            )
        )
    )

# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "trilane"
# title = "Trilane"
# library = "trilane"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "trilane.client of the installation that measures; `engine` is the native load engine"
# strategies = [
#     "serial",
#     "threads",
#     "processes",
#     "asyncio_threads",
#     "asyncio",
#     "processes_asyncio",
#     "chunks",
#     "multiplexed",
# ]
# ///
"""Trilane's own client: a pool, an asynchronous pool, or streams of one connection by their ids."""

import contextlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane.client import AsyncClient, Client, HTTPConnection, HTTPSConnection, Timeouts, errors
from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted, counted_async

KINDS = (
    (errors.ResolveError, "dns"),
    (errors.TLSError, "tls"),
    (errors.Timeout, "timeout"),
    (errors.GoAway, "goaway"),
    (errors.StreamReset, "reset"),
    (errors.ConnectionClosed, "closed"),
    (errors.IncompleteBody, "body"),
    (errors.DecodingError, "body"),
    (errors.VersionUnavailable, "protocol"),
    (errors.RemoteProtocolError, "protocol"),
    (errors.ConnectFailed, "connect"),
)
# Over cleartext, HTTP/2 alone means prior knowledge.
SPOKEN = {10: "h1.0", 11: "h1", 20: "h2", 30: "h3"}
ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}


def settings(plan: Plan) -> dict[str, Any]:
    """What both clients are told; for a place in the pool they wait as long as all before may."""
    limit_s = plan.timeout_s
    return {
        "versions": ASKED[plan.version],
        "verify": plan.cacert or True,
        "timeout": Timeouts(limit_s, limit_s, limit_s, plan.queue_s),
        "headers": plan.headers,
        "proxies": None,
        "max_connections": plan.pool,
    }


class Blocking:
    """One `Client`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = Client(**settings(plan))

    def fetch(self, path: str) -> Answer:
        """`client.request`; without `discard` the body is read and decoded before it returns."""
        plan, url = self._plan, self._plan.target + path
        if plan.body_file is None and not plan.discard:
            response = self._client.request(plan.method, url, content=plan.body)
            return Answer(response.status, response.version, response.content)
        with contextlib.ExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            streamed = stack.enter_context(self._client.stream(plan.method, url, content=file))
            if not plan.discard:
                return Answer(streamed.status, streamed.version, streamed.content)
            size = counted(streamed.iter_bytes(PIECE))
            return Answer(streamed.status, streamed.version, b"", size)

    def close(self) -> None:
        """Close the pool."""
        self._client.close()


class Streams:
    """One connection, and responses by the ids of their streams."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._headers = dict(plan.headers)
        kind = HTTPSConnection if plan.scheme == "https" else HTTPConnection
        self._connection = kind(
            plan.host,
            plan.port,
            versions=ASKED[plan.version],
            verify=plan.cacert or True,
            timeout=plan.timeout_s,
        )

    def submit(self, path: str) -> int:
        """`connection.request` returns the stream's id."""
        plan = self._plan
        return self._connection.request(plan.method, path, body=plan.body, headers=self._headers)

    def collect(self, handle: int) -> Answer:
        """`connection.get_response` of that stream."""
        response = self._connection.get_response(handle)
        body = response.read()
        return Answer(response.status, SPOKEN[response.version], body)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Awaiting:
    """One `AsyncClient`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = AsyncClient(**settings(plan))

    async def fetch(self, path: str) -> Answer:
        """`client.request`; without `discard` the body is read and decoded before it returns."""
        plan, url = self._plan, self._plan.target + path
        if plan.body_file is None and not plan.discard:
            response = await self._client.request(plan.method, url, content=plan.body)
            return Answer(response.status, response.version, response.content)
        async with contextlib.AsyncExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            streamed = await stack.enter_async_context(
                self._client.stream(plan.method, url, content=file)
            )
            if not plan.discard:
                return Answer(streamed.status, streamed.version, await streamed.read())
            size = await counted_async(streamed.aiter_bytes(PIECE))
            return Answer(streamed.status, streamed.version, b"", size)

    async def close(self) -> None:
        """Close the pool."""
        await self._client.aclose()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="trilane",
                client=Blocking,
                async_client=Awaiting,
                stream_client=Streams,
                shared_by_threads=frozenset(ASKED),
                streams_bodies=True,
                kinds=KINDS,
            )
        )
    )

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
#
# [tool.trilane.variants.trilane-uvloop]
# title = "Trilane on uvloop"
# note = "the asynchronous client of the contender trilane, on event loops of uvloop"
# strategies = ["asyncio", "chunks", "multiplexed"]
#
# [tool.trilane.variants.trilane-get-all]
# title = "Trilane, get_all"
# versions = ["h2", "h2c", "h3"]
# note = "Client.get_all, which reads responses in the order of their URLs; GET without content"
# strategies = ["multiplexed"]
# ///
"""Trilane's own client: a pool, an asynchronous pool, or streams of one connection by their ids.

And `Client.get_all`, for many URLs from one thread.
"""

import contextlib
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane.client import (
    AsyncClient,
    Client,
    HTTPConnection,
    HTTPSConnection,
    Response,
    Timeouts,
    errors,
)
from trilane_contender import Answer, Broken, Library, Plan, run
from trilane_contender.bodies import PIECE, counted, counted_async
from trilane_contender.missing import need
from trilane_contender.uvloops import loop

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


class Ordered:
    """One `Client`, whose `get_all` takes the URLs as they are submitted."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = Client(**settings(plan))
        self._submitted: deque[str] = deque()
        self._responses: Iterator[Response] = iter(())

    def submit(self, path: str) -> None:
        """The response is the next that nobody has collected."""
        self._submitted.append(self._plan.target + path)

    def collect(self, _: None) -> Answer:
        """The next response of `get_all`."""
        response = next(self._responses, None)
        if response is None:
            # It has ended, as it found nothing more to send: what was submitted since is new.
            ahead = self._plan.in_flight
            self._responses = self._client.get_all(self._waiting(), ahead=ahead)
            response = next(self._responses, None)
        if response is None:
            raise Broken("closed", "get_all ended by an error before this response")
        return Answer(response.status, response.version, response.content)

    def close(self) -> None:
        """Close the pool."""
        self._client.close()

    def _waiting(self) -> Iterator[str]:
        while self._submitted:
            yield self._submitted.popleft()


def not_a_get(plan: Plan) -> str | None:
    """What `get_all` has no argument for."""
    if plan.method != "GET" or plan.body is not None:
        return "get_all sends GET without content"
    return None


def library(variant: str) -> Library:
    """The clients that are measured."""
    common = partial(Library, distribution="trilane", kinds=KINDS)
    if variant == "trilane-uvloop":
        need("uvloop")
        return common(async_client=Awaiting, streams_bodies=True, loop=loop)
    shared = frozenset(ASKED)
    if variant == "trilane-get-all":
        return common(stream_client=Ordered, shared_by_threads=shared, cannot=not_a_get)
    return common(
        client=Blocking,
        async_client=Awaiting,
        stream_client=Streams,
        shared_by_threads=shared,
        streams_bodies=True,
    )


if __name__ == "__main__":
    sys.exit(run(library(sys.argv[-1])))

"""The three shapes of a client library, and what a library says about itself.

`Client` blocks for one request. `AsyncClient` awaits one. `StreamClient` starts many on one
connection and collects them by a handle. A library offers one or more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trilane_contender.plan import Plan


class Answer(NamedTuple):
    """A complete response as its library gave it."""

    status: int
    version: str
    """What was spoken, as the library knows it: `h1`, `h2` or `h3`. Never a guess."""
    body: bytes
    """Whole, and decoded if it came compressed."""
    size: int | None = None
    """Of a body that the plan tells to discard: how many bytes were read; `body` is empty then."""


class Broken(Exception):
    """A request failed in a way that the library has no exception for."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


class Client(Protocol):
    """A session that sends one request and waits for it."""

    def fetch(self, path: str) -> Answer:
        """Send the plan's request to `path` and read the whole response."""

    def close(self) -> None:
        """Close every connection."""


class AsyncClient(Protocol):
    """A session for an event loop. It is made, used and closed inside a running loop."""

    async def fetch(self, path: str) -> Answer:
        """Send the plan's request to `path` and read the whole response."""

    async def close(self) -> None:
        """Close every connection."""


class StreamClient(Protocol):
    """One connection on which many requests are under way at once."""

    def submit(self, path: str) -> Any:
        """Start the plan's request to `path`; the handle is for `collect`."""

    def collect(self, handle: Any) -> Answer:
        """Wait for that response and read all of it."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class Library:
    """A client library, described for the harness.

    The makers are called with the plan, in the process (and the event loop) that uses the client.
    They must be importable names of the script: child processes get them by name.
    """

    distribution: str | None
    """Whose version is reported; none for the standard library, or for what `release` tells."""
    client: Callable[[Plan], Client] | None = None
    async_client: Callable[[Plan], AsyncClient] | None = None
    stream_client: Callable[[Plan], StreamClient] | None = None
    shared_by_threads: frozenset[str] = frozenset()
    """Versions over which one client may serve all threads; else each thread gets its own."""
    streams_bodies: bool = False
    """Whether the clients heed `body_file` and `discard`."""
    keeps_connections: bool = True
    """Whether a session is more than the same settings for each request."""
    release: Callable[[], tuple[str, str]] | None = None
    """Name and version of a client that is no distribution."""
    cannot: Callable[[Plan], str | None] | None = None
    """Why this installation of the library cannot do a plan, if it cannot."""
    loop: Callable[[], Any] | None = None
    """Makes the event loops, where they are not to be asyncio's own."""
    kinds: tuple[tuple[type[BaseException], str], ...] = ()
    """Kinds of failure for the library's own exceptions, most special first."""

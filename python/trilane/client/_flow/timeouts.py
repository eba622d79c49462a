"""How long each kind of wait may take."""

from __future__ import annotations

from types import EllipsisType
from typing import NamedTuple, TypeAlias

from trilane.client.errors import ConnectTimeout, PoolTimeout, ReadTimeout, WriteTimeout


class Timeouts(NamedTuple):
    """Seconds; None waits for ever."""

    connect: float | None = 10.0
    """From the look-up of the name to the end of the handshake, for each attempt."""
    read: float | None = 60.0
    """Until the next bytes of the response come: not for the response as a whole."""
    write: float | None = 60.0
    """Until the peer takes more of the request's content."""
    pool: float | None = 60.0
    """Until a connection is free, where the pool may not open another."""


TimeoutGiven: TypeAlias = Timeouts | float | tuple[float | None, float | None] | EllipsisType | None
"""What callers may give: all four, one number for each of them, (connect, read) as Requests has it,
None for no limits, or `...` for the client's own."""


def timeouts(given: TimeoutGiven, default: Timeouts) -> Timeouts:
    """What the caller means.

    Raises:
        ValueError: a number is below 0.
        TypeError: it is anything else.
    """
    if given is ...:
        return default
    if isinstance(given, Timeouts):
        wanted = given
    elif given is None:
        wanted = Timeouts(None, None, None, None)
    elif isinstance(given, tuple):
        connect, read = given
        wanted = Timeouts(connect, read, read, connect)
    else:
        seconds = float(given)
        wanted = Timeouts(seconds, seconds, seconds, seconds)
    for value in wanted:
        if value is not None and not value >= 0:
            name = wanted._fields[wanted.index(value)]
            raise ValueError(f"the {name} timeout is {value!r} seconds: give 0 or more, or None")
    return wanted


def connect_timeout(origin: str, limit: float | None) -> ConnectTimeout:
    """The error for a first connection that others open, and that is not there in time."""
    return ConnectTimeout(
        f"no connection to {origin} was ready within {limit} s: allow more with"
        " Timeouts(connect=...)"
    )


def pool_timeout(origin: str, limit: float | None) -> PoolTimeout:
    """The error for connections that are all in use for too long."""
    return PoolTimeout(
        f"no connection to {origin} was free within {limit} s: read or close responses, allow more"
        " connections with max_connections, or more time with Timeouts(pool=...)"
    )


def response_timeout(
    origin: str, method: str, limit: float | None, stream_id: int | None
) -> ReadTimeout:
    """The error for a head of a response that does not come."""
    return ReadTimeout(
        f"{origin} sent no response to {method} within {limit} s: allow more with"
        " Timeouts(read=...)",
        stream_id=stream_id,
    )


def content_timeout(url: str, limit: float | None, stream_id: int | None) -> ReadTimeout:
    """The error for content of a response of which no more comes."""
    return ReadTimeout(
        f"{url} sent no more of its content within {limit} s: allow more with Timeouts(read=...)",
        stream_id=stream_id,
    )


def write_timeout(
    origin: str, method: str, limit: float | None, stream_id: int | None
) -> WriteTimeout:
    """The error for content of a request of which no more is taken."""
    return WriteTimeout(
        f"{origin} took none of the content of {method} within {limit} s: allow more with"
        " Timeouts(write=...)",
        stream_id=stream_id,
    )

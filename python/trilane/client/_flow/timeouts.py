"""How long each kind of wait may take."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType
from typing import Final, NamedTuple, TypeAlias

from trilane.client.errors import (
    ConnectTimeout,
    PoolTimeout,
    ReadTimeout,
    TotalTimeout,
    WriteTimeout,
)

_GRAIN_S: Final = 0.01
"""To what the time that is left is rounded up: an event loop has one timer for equal limits."""


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
    total: float | None = None
    """For the whole request: from its call to the last byte of its content, with redirects, pauses
    and all that is sent again."""

    def is_over(self) -> bool:
        """Whether the time for the whole request has passed; no clock runs here."""
        return False

    def since(self, ago: float) -> Timeouts:  # noqa: ARG002 - see `Until`
        """The limits for waits that began so many seconds ago, as they were then."""
        return self


class Until(Timeouts):
    """Limits of a request whose whole time is limited: no wait may last longer than what is left.

    `read`, `write`, `connect` and `pool` shrink as time goes by.
    """

    _clock: Callable[[], float]
    _deadline: float

    @classmethod
    def begin(cls, limits: Timeouts, clock: Callable[[], float]) -> Until:
        """Start the clock, which gives seconds, for limits that have a `total`."""
        made = cls(*limits)
        made._clock = clock
        made._deadline = clock() + (limits.total or 0.0)
        return made

    def left(self) -> float:
        """Seconds that are left, at least 0."""
        left = self._deadline - self._clock()
        return math.ceil(left / _GRAIN_S) * _GRAIN_S if left > 0.0 else 0.0

    def is_over(self) -> bool:
        """Whether the time for the whole request has passed."""
        return self._clock() >= self._deadline

    def since(self, ago: float) -> Timeouts:
        """The limits for waits that began so many seconds ago, as they were then."""
        most = self.left() + ago
        return Timeouts(*(most if each is None else min(each, most) for each in self))

    def _least(self, given: float | None) -> float:
        left = self.left()
        return left if given is None or given > left else given

    @property
    def connect(self) -> float | None:
        """See `Timeouts`."""
        return self._least(self[0])

    @property
    def read(self) -> float | None:
        """See `Timeouts`."""
        return self._least(self[1])

    @property
    def write(self) -> float | None:
        """See `Timeouts`."""
        return self._least(self[2])

    @property
    def pool(self) -> float | None:
        """See `Timeouts`."""
        return self._least(self[3])


TimeoutGiven: TypeAlias = Timeouts | float | tuple[float | None, float | None] | EllipsisType | None
"""What callers may give: all of them, one number for each but `total`, (connect, read) as Requests
has it, None for no limits, or `...` for the client's own."""


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
        if len(given) != 2:
            raise TypeError(
                f"timeout={given!r}: give seconds, (connect, read), or Timeouts(connect=, read=,"
                " write=, pool=, total=)"
            )
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


def total_timeout(url: str, limit: float | None) -> TotalTimeout:
    """The error for a request that took too long, all in all."""
    return TotalTimeout(
        f"the request to {url} was not done within {limit} s, redirects, pauses and content"
        " included: allow more with Timeouts(total=...)"
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

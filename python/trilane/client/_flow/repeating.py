"""Whether a request is sent again, for all three clients. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trilane.client import errors
from trilane.client.errors import RemoteError

if TYPE_CHECKING:
    from trilane.client._flow.request import Request
    from trilane.client._flow.routes import Entry, Pooled

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent again though the first may have been processed (RFC 9110 §9.2.2)."""
MOST_ATTEMPTS: Final = 16
"""How often one request is sent at most, all in all."""
_AT_ONCE: Final = 2
_MISDIRECTED: Final = 421
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.25


Connection = TypeVar("Connection", bound="Pooled")


class Pool(Protocol[Connection]):
    """What is told of alternatives; the pools of both clients are such."""

    def misdirected(self, entry: Entry[Connection]) -> None:
        """The alternative answered 421."""

    def broken(self, entry: Entry[Connection]) -> None:
        """A connection died under a request."""


def permits(error: BaseException, method: str, *, sent: bool = True) -> bool:
    """Whether a request of that method may be sent again after the error.

    Only where the error says `retryable`. Where that is a likelihood and no proof (a reused
    HTTP/1.1 connection that closed), the method must be idempotent too, if the request was `sent`:
    a connection that had ended before has taken nothing of it. Where no connection could be made,
    another attempt is the caller's to decide.
    """
    if not isinstance(error, RemoteError) or not error.retryable:
        return False
    return method in IDEMPOTENT or not (sent and isinstance(error, errors.ConnectionClosed))


def failed(
    pool: Pool[Connection],
    entry: Entry[Connection],
    error: BaseException,
    request: Request,
    attempts: int,
    *,
    sent: bool,
) -> float | None:
    """Seconds to wait before a request that failed on `entry` is sent again; None: raise the error.

    `attempts` is how often it was tried, `sent` whether it was given to a connection. Its content
    must be there to be sent from its start again. What the caller's own code raised is raised.
    """
    if error is request.raised:
        return None
    # One that ended before it was given the request may have lain idle for too long.
    if sent and isinstance(error, errors.ConnectionClosed):
        pool.broken(entry)
    if not permits(error, request.method, sent=sent):
        return None
    if not request.replayable or attempts >= MOST_ATTEMPTS:
        return None
    if attempts <= _AT_ONCE:
        return 0.0
    # A peer that refuses again and again is busy: leave it some time.
    return float(min(_FIRST_PAUSE_S * 2.0 ** (attempts - _AT_ONCE), _LONGEST_PAUSE_S))


def passes_over(
    pool: Pool[Connection],
    entry: Entry[Connection],
    status: int,
    request: Request,
    attempts: int,
) -> bool:
    """Whether an alternative refuses to answer for the origin, which is to be asked itself.

    Only an alternative can be given up for it (RFC 9110 §15.5.20); where the origin itself says so,
    it is the response. A server may name another alternative each time, so there is an end to it.
    """
    if entry.alternative is None or status != _MISDIRECTED:
        return False
    pool.misdirected(entry)
    return request.replayable and attempts < MOST_ATTEMPTS

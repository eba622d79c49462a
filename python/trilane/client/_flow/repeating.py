"""Whether a request is sent again, for all three clients. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trilane.client.errors import ConnectionClosed, RemoteError

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

    See `pause`. What the caller's own code raised is always the caller's.
    """
    if error is request.raised:
        return None
    if breaks(error, sent=sent):
        pool.broken(entry)
    return pause(error, request, attempts, sent=sent)


def passes_over(
    pool: Pool[Connection],
    entry: Entry[Connection],
    status: int,
    request: Request,
    attempts: int,
) -> bool:
    """Whether a response is no answer: an alternative says so, and the origin is to be asked."""
    if not misdirected(status, alternative=entry.alternative is not None):
        return False
    pool.misdirected(entry)
    return asks_elsewhere(request, attempts)


def permits(error: BaseException, method: str, *, sent: bool = True) -> bool:
    """Whether a request of that method may be sent again after the error.

    Only where the error says `retryable`. Where that is a likelihood and no proof (a reused
    HTTP/1.1 connection that closed), the method must be idempotent too, if the request was `sent`:
    a connection that had ended before has taken nothing of it. Where no connection could be made,
    another attempt is the caller's to decide.
    """
    if not isinstance(error, RemoteError) or not error.retryable:
        return False
    return method in IDEMPOTENT or not (sent and isinstance(error, ConnectionClosed))


def pause(
    error: BaseException, request: Request, attempts: int, *, sent: bool = True
) -> float | None:
    """Seconds to wait before the request is sent again, or None: raise the error.

    `attempts` is how often it was tried, `sent` whether it was given to a connection. Its content
    must be there to be sent from its start again.
    """
    if not permits(error, request.method, sent=sent):
        return None
    if not request.replayable or attempts >= MOST_ATTEMPTS:
        return None
    if attempts <= _AT_ONCE:
        return 0.0
    # A peer that refuses again and again is busy: leave it some time.
    return float(min(_FIRST_PAUSE_S * 2.0 ** (attempts - _AT_ONCE), _LONGEST_PAUSE_S))


def breaks(error: BaseException, *, sent: bool) -> bool:
    """Whether an error says that the connection failed, so that an alternative is left alone.

    One that ended before it was given the request may have lain idle for too long.
    """
    return sent and isinstance(error, ConnectionClosed)


def misdirected(status: int, *, alternative: bool) -> bool:
    """Whether a response says that its connection is none for the request (RFC 9110 §15.5.20).

    Only an alternative can be given up for it; where the origin itself says so, it is the response.
    """
    return alternative and status == _MISDIRECTED


def asks_elsewhere(request: Request, attempts: int) -> bool:
    """Whether a request whose response was `misdirected` is sent again; else that is its response.

    A server may name another alternative in each such response, so there is an end to it.
    """
    return request.replayable and attempts < MOST_ATTEMPTS

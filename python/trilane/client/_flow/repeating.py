"""Whether a request is sent again, for all three clients. No I/O.

What a server provably did not process is sent again without being asked, by `failed`; what the user
wants to be repeated beyond that is told by `Retries`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trilane.client import errors
from trilane.client.errors import (
    ConnectFailed,
    Full,
    GoAway,
    PoolTimeout,
    ReadTimeout,
    RemoteError,
    StreamReset,
    Timeout,
    TotalTimeout,
    VersionUnavailable,
    WriteTimeout,
)

if TYPE_CHECKING:
    from trilane.client._flow.request import Request
    from trilane.client._flow.routes import Entry, Pooled

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent again though the first may have been processed (RFC 9110 §9.2.2)."""
MOST_ATTEMPTS: Final = 16
"""How often one request is sent at most, all in all."""
_AT_ONCE: Final = 2
_CALM_DOWN: Final = frozenset({0xB, 0x107})
"""ENHANCE_YOUR_CALM (RFC 9113 §7) and H3_EXCESSIVE_LOAD (RFC 9114 §8.1)."""
_MISDIRECTED: Final = 421
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.25


Connection = TypeVar("Connection", bound="Pooled")


class Pool(Protocol[Connection]):
    """What is told of alternatives; the pools of both clients are such."""

    def misdirected(self, entry: Entry[Connection]) -> None:
        """The alternative answered 421."""

    def answered(self, entry: Entry[Connection]) -> None:
        """The alternative has answered for the first time."""

    def broken(self, entry: Entry[Connection]) -> None:
        """The alternative has failed."""


class Retries:
    """What is sent again, how often, and after which pause. It can be shared by clients.

    By what an error says of the request:

    - proof that it was not processed (no connection, REFUSED_STREAM, GOAWAY below it): any method.
    - likelihood, or nothing known (the connection ended, a timeout): `methods` only.
    - a response that has one of `statuses`: `methods` only.
    - a certificate that is not trusted, a broken protocol, an argument that is none: never.
    """

    __slots__ = ("backoff", "longest", "methods", "respect_retry_after", "statuses", "total")

    def __init__(
        self,
        total: int = 3,
        *,
        statuses: Iterable[int] = (429, 502, 503, 504),
        methods: Iterable[str] = IDEMPOTENT,
        backoff: float = 0.5,
        longest: float = 60.0,
        respect_retry_after: bool = True,
    ) -> None:
        """Say how often a request is sent again, all in all.

        total: how often, after the first time.
        methods: those whose requests may be processed twice (RFC 9110 §9.2.2).
        backoff: seconds. The pause is drawn from 0 to this, to twice this, and so on (full jitter:
            clients that failed together do not come back together).
        longest: seconds of the longest pause. A `Retry-After` beyond it ends the attempts, and
            the response is given as it is.
        respect_retry_after: whether `Retry-After` (RFC 9110 §10.2.3) is the least pause.

        Raises:
            ValueError: a number is below 0.
        """
        for name, value in (("total", total), ("backoff", backoff), ("longest", longest)):
            if not value >= 0:
                raise ValueError(f"Retries({name}={value!r}): give 0 or more")
        self.total = total
        self.statuses = frozenset(statuses)
        self.methods = frozenset(method.upper() for method in methods)
        self.backoff = backoff
        self.longest = longest
        self.respect_retry_after = respect_retry_after

    @classmethod
    def of(cls, given: Retries | int | None) -> Retries:
        """A policy from what callers give: one, how often, or None for never.

        Raises:
            TypeError: it is none of these, as a policy of another library.
            ValueError: a number is below 0.
        """
        if isinstance(given, cls):
            return given
        if given is None:
            return cls(0)
        if not isinstance(given, int):
            raise TypeError(
                f"retries={given!r}: give a number, or Retries(total=, statuses=, methods=,"
                " backoff=, longest=, respect_retry_after=) of trilane.client"
            )
        return cls(int(given))

    def after_error(
        self, error: BaseException, request: Request, done: int, chance: float
    ) -> float | None:
        """Seconds to wait before a request that failed is sent again; None: it is not.

        `done` is how often it was sent again before, `chance` a number from 0 to 1.
        """
        if done >= self.total or error is request.raised or not request.replayable:
            return None
        if is_proof(error) or (request.method in self.methods and _is_passing(error)):
            return self._pause(done, chance)
        return None

    def after_status(
        self,
        status: int,
        retry_after: str | None,
        request: Request,
        done: int,
        *,
        chance: float,
        now: float,
    ) -> float | None:
        """Seconds to wait before a request is sent again whose response has that status.

        `retry_after` is the field of that name, `now` the time of day in seconds since 1970. None:
        the response is what the caller gets.
        """
        if done >= self.total or status not in self.statuses:
            return None
        if request.method not in self.methods or not request.replayable:
            return None
        pause = self._pause(done, chance)
        if retry_after is None or not self.respect_retry_after:
            return pause
        least = seconds_of(retry_after, now)
        if least is None:
            return pause
        return None if least > self.longest else max(least, pause)

    def _pause(self, done: int, chance: float) -> float:
        return chance * min(self.longest, self.backoff * 2.0 ** min(done, 64))

    def __repr__(self) -> str:
        return f"Retries({self.total}, statuses={sorted(self.statuses)})"


def seconds_of(retry_after: str, now: float) -> float | None:
    """The seconds that a field `retry-after` asks for, from `now` on; None where it is none.

    It is a number of seconds, or a date (RFC 9110 §10.2.3).
    """
    given = retry_after.strip()
    if given.isascii() and given.isdigit():
        return float(given[:10])
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - dates are rare

    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def is_proof(error: BaseException) -> bool:
    """Whether the error proves that the server has not processed the request.

    That a name in a certificate is wrong, or that a version is not spoken, proves it too, but will
    be so the next time.
    """
    if isinstance(error, ConnectFailed):
        return not isinstance(error, errors.TLSError | VersionUnavailable)
    if isinstance(error, Full):
        return True
    retryable = isinstance(error, RemoteError) and error.retryable
    return retryable and not isinstance(error, errors.ConnectionClosed)


def _is_passing(error: BaseException) -> bool:
    """Whether the same may go well the next time, though it may have been processed."""
    if isinstance(error, Timeout):
        return not isinstance(error, TotalTimeout | PoolTimeout)
    return isinstance(error, errors.ConnectionClosed | StreamReset | GoAway | errors.IncompleteBody)


def permits(error: BaseException, method: str, *, sent: bool = True) -> bool:
    """Whether a request of that method may be sent again after the error.

    Only where the error says `retryable`. Where that is a likelihood and no proof (a reused
    HTTP/1.1 connection that closed), the method must be idempotent too, if the request was `sent`:
    a connection that had ended before has taken nothing of it. Where no connection could be made,
    another attempt is the caller's to decide. One that a connection had no room for was not sent.
    """
    if isinstance(error, Full):
        return True
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
    # One that ended before it was given the request may have lain idle for too long. One that has
    # never answered may be broken in any way, while the origin itself is sound.
    if (sent and isinstance(error, errors.ConnectionClosed)) or (
        not entry.answered and isinstance(error, RemoteError | ReadTimeout | WriteTimeout)
    ):
        pool.broken(entry)
    if not permits(error, request.method, sent=sent) and not (
        request.method in IDEMPOTENT and _has_ended(entry, error)
    ):
        return None
    if not request.replayable or attempts >= MOST_ATTEMPTS:
        return None
    if isinstance(error, RemoteError) and error.error_code in _CALM_DOWN:
        # More connections would be more of what it complains of: who wants that has `retries`.
        return _LONGEST_PAUSE_S if attempts == 1 else None
    if attempts <= _AT_ONCE:
        return 0.0
    # A peer that refuses again and again is busy: leave it some time.
    return float(min(_FIRST_PAUSE_S * 2.0 ** (attempts - _AT_ONCE), _LONGEST_PAUSE_S))


def _has_ended(entry: Entry[Connection], error: BaseException) -> bool:
    """Whether a connection that had served other requests ended before the response began.

    That is how servers end a connection of HTTP/2 or HTTP/3 which they want to be rid of: the same
    as a kept connection of HTTP/1.1 that closes (RFC 9110 §9.2.2). Where it ended with its first
    request, that request may be why.
    """
    if not entry.shared or not isinstance(error, errors.ConnectionClosed):
        return False
    # Ids of HTTP/2 begin with 1, those of HTTP/3 with 0.
    return (error.stream_id or 0) > 1


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
    if entry.alternative is None:
        return False
    if status != _MISDIRECTED:
        if not entry.answered:
            pool.answered(entry)
        return False
    pool.misdirected(entry)
    return request.replayable and attempts < MOST_ATTEMPTS

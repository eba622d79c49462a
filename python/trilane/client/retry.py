"""Whether a request is sent again, for both clients. No I/O."""

from __future__ import annotations

from typing import Final

from .errors import ConnectionClosed, Error, RemoteError

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent again though the first may have been processed (RFC 9110 §9.2.2)."""
MOST_ATTEMPTS: Final = 16
"""How often one request is sent at most, all in all."""
_AT_ONCE: Final = 2
_MISDIRECTED: Final = 421
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.25


def pause(error: Error, method: str, attempts: int, *, replayable: bool) -> float | None:
    """Seconds to wait before the request is sent again, or None: raise the error.

    `attempts` is how often it was sent, `replayable` whether its content can be sent from its start
    again. A request is repeated only when the error says `retryable`. Where that is a likelihood
    and no proof (a reused HTTP/1.1 connection that closed), its method must be idempotent too.
    Where no connection could be made, another attempt is the caller's to decide.
    """
    if not error.retryable or not isinstance(error, RemoteError):
        return None
    if not replayable or attempts >= MOST_ATTEMPTS:
        return None
    if isinstance(error, ConnectionClosed) and method not in IDEMPOTENT:
        return None
    if attempts <= _AT_ONCE:
        return 0.0
    # A peer that refuses again and again is busy: leave it some time.
    return float(min(_FIRST_PAUSE_S * 2.0 ** (attempts - _AT_ONCE), _LONGEST_PAUSE_S))


def misdirected(status: int, *, alternative: bool) -> bool:
    """Whether a response says that its connection is none for the request (RFC 9110 §15.5.20).

    Only an alternative can be given up for it; where the origin itself says so, it is the response.
    """
    return alternative and status == _MISDIRECTED


def asks_elsewhere(attempts: int, *, replayable: bool) -> bool:
    """Whether a request whose response was `misdirected` is sent again; else that is its response.

    A server may name another alternative in each such response, so there is an end to it.
    """
    return replayable and attempts < MOST_ATTEMPTS

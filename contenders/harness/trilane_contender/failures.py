"""What an exception means: the kinds of failure that the whole lab counts."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
from collections.abc import Iterator, Sequence

from trilane_contender.client import Broken

Kinds = Sequence[tuple[type[BaseException], str]]

_STANDARD: Kinds = (
    (socket.gaierror, "dns"),
    (ssl.SSLCertVerificationError, "tls"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
    (http.client.RemoteDisconnected, "closed"),
    (http.client.IncompleteRead, "body"),
    (ssl.SSLEOFError, "closed"),
    (ssl.SSLZeroReturnError, "closed"),
    (ssl.SSLError, "tls"),
    (ConnectionResetError, "reset"),
    (BrokenPipeError, "reset"),
    (ConnectionAbortedError, "reset"),
    (http.client.HTTPException, "protocol"),
)
_UNREACHABLE = {
    errno.EHOSTUNREACH: "connect",
    errno.ENETUNREACH: "connect",
    errno.EADDRNOTAVAIL: "limit",
    errno.EMFILE: "limit",
    errno.ENFILE: "limit",
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.ETIMEDOUT: "timeout",
}
_DEPTH = 12
_LONGEST = 300
_NOTHING = frozenset({"", "None"})


def kind_of(error: BaseException, own: Kinds = ()) -> str:
    """The kind of a failure: by the system's exception under it, else by the library's own.

    The cause tells more than the wrapper: most libraries raise one "connection error" for a closed
    port, a bad certificate and an unknown name. What nobody knows is `protocol`: the library broke.
    """
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, Broken):
            return link.kind
    for link in chain:
        for exception, kind in _STANDARD:
            if isinstance(link, exception):
                return kind
        if isinstance(link, OSError) and link.errno in _UNREACHABLE:
            return _UNREACHABLE[link.errno]
    for exception, kind in own:
        if any(isinstance(link, exception) for link in chain):
            return kind
    return "connect" if any(isinstance(link, OSError) for link in chain) else "protocol"


def message_of(error: BaseException) -> str:
    """What the library said; where that is nothing, the names of what it raised."""
    if isinstance(error, Broken):
        return error.message
    if str(error) in _NOTHING:
        names = " from ".join(type(link).__name__ for link in _chain(error))
        return f"{names}, without a message"[:_LONGEST]
    return f"{type(error).__name__}: {error}"[:_LONGEST]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes, and those that libraries carry as attributes or arguments."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _DEPTH:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        carried = (
            link.__cause__,
            link.__context__,
            getattr(link, "reason", None),
            getattr(link, "os_error", None),
            *link.args,
        )
        waiting.extend(each for each in carried if isinstance(each, BaseException))

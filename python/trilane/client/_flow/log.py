"""What the logger `trilane.client` is told: connections made and closed, requests sent again.

All of it is DEBUG. No field, no content, no path and no query of a request is written: they may be
secrets. A program that has not imported `logging` has no handlers, so it is not imported here.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import Logger
    from types import ModuleType

    from trilane.client._flow.request import Request
    from trilane.client._flow.routes import Attempt, Entry


def _logger() -> Logger | None:
    """The logger, where it is to be told anything."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger = _of(logging)
    return logger if logger.isEnabledFor(logging.DEBUG) else None


@cache
def _of(logging: ModuleType) -> Logger:
    """The logger. It is asked for once, since that takes a lock of all of `logging`.

    What a signal handler raises there leaves the lock taken, and every other thread without end.
    """
    logger: Logger = logging.getLogger("trilane.client")
    return logger


def opened(attempt: Attempt, connection: Any) -> None:
    """A connection has been made."""
    logger = _logger()
    if logger is None:
        return
    tls = connection.tls_info
    security = "without TLS" if tls is None else f"{tls['version']}, {tls['cipher']}"
    if tls is not None and tls["resumed"]:
        security += ", resumed"
    steps = ("dns", "connect", "tunnel", "tls", "quic")
    took = ", ".join(
        f"{step} {seconds * 1000:.1f} ms"
        for step, seconds in zip(steps, connection.facts.setup, strict=True)
        if seconds is not None
    )
    logger.debug(
        "connected to %s by %s at %s (%s; %s)",
        attempt.route.origin,
        connection.version,
        place(connection.peer),
        security,
        took,
    )


def failed(attempt: Attempt, error: BaseException) -> None:
    """A connection could not be made."""
    logger = _logger()
    if logger is not None:
        logger.debug("no connection to %s: %s", attempt.route.origin, error)


def closed(connection: Any) -> None:
    """A connection has left the pool and is closed."""
    logger = _logger()
    if logger is not None:
        logger.debug(
            "closed the connection by %s to %s", connection.version, place(connection.peer)
        )


def again(request: Request, entry: Entry[Any], error: BaseException | None, attempts: int) -> None:
    """A request is sent again; no error: an alternative has refused it (421)."""
    logger = _logger()
    if logger is not None:
        logger.debug(
            "sending %s to %s again, after attempt %d: %s",
            request.method,
            entry.route.origin,
            attempts,
            "the alternative answered 421" if error is None else error,
        )


def place(peer: tuple[str, int] | None) -> str:
    """An address and a port, or that there are none."""
    if peer is None:
        return "a Unix socket"
    host, port = peer
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

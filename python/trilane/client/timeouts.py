"""How long each kind of wait may take."""

from __future__ import annotations

from types import EllipsisType
from typing import NamedTuple, TypeAlias


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

    Errors: ValueError for a number below 0, TypeError for anything else.
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
    for name, value in wanted._asdict().items():
        if value is not None and not value >= 0:
            raise ValueError(f"the {name} timeout is {value!r} seconds: give 0 or more, or None")
    return wanted

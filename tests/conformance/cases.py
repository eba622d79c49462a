"""What a correct client makes of an answer, and the cases of HTTP/1.1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeAlias

from trilane.client import errors


@dataclass(frozen=True)
class Taken:
    """The response is taken for what it says."""

    content: bytes = b"hello world"
    status: int = 200
    fields: tuple[tuple[str, str], ...] = ()
    """Some of its fields, as the client hands them out."""
    trailers: tuple[tuple[str, str], ...] = ()
    informational: tuple[int, ...] = ()
    kept: bool = True
    """Whether the next request uses the same connection."""

    def __str__(self) -> str:
        parts = [f"{self.status}, {len(self.content)} bytes"]
        if self.trailers:
            parts.append("trailers" if len(self.trailers) > 1 else "trailer")
        if self.informational:
            parts.append(f"{len(self.informational)} × 1xx")
        if not self.kept:
            parts.append("connection closed")
        return ", ".join(parts)


@dataclass(frozen=True)
class Failed:
    """The request fails."""

    kind: str
    """A kind of `failures` in `docs/run.schema.json`."""
    error: type[errors.Error]
    kept: bool = False
    """Whether the next request uses the same connection."""

    def __str__(self) -> str:
        return f"`{self.kind}`"


Expected: TypeAlias = Taken | Failed

BROKEN = Failed("protocol", errors.RemoteProtocolError)
BEYOND = Failed("limit", errors.LimitExceeded)
CLOSED = Failed("closed", errors.ConnectionClosed)
SHORT = Failed("body", errors.IncompleteBody)
SILENT = Failed("timeout", errors.ReadTimeout)
UNDECODED = Failed("body", errors.DecodingError, kept=True)
"""Of the client alone: the engine leaves content codings as they are."""
REQUEST = 0
"""In place of a stream: that of the request which is answered."""


@dataclass(frozen=True)
class Say:
    """Bytes of a stream, and its end; streams are those of HTTP/3."""

    stream: int
    data: bytes
    end: bool = False


@dataclass(frozen=True)
class Reset:
    """RESET_STREAM; of TCP, the connection is reset."""

    stream: int
    code: int


@dataclass(frozen=True)
class Stop:
    """STOP_SENDING."""

    stream: int
    code: int


@dataclass(frozen=True)
class Close:
    """CONNECTION_CLOSE with a code of HTTP/3; over TCP, the last byte has been said."""

    code: int


Step: TypeAlias = Say | Reset | Stop | Close


class Seen(StrEnum):
    """How the server learns of an error, or of an answer."""

    NOTHING = ""
    CONNECTION_CLOSE = "close"
    """GOAWAY of HTTP/2."""
    STOP_SENDING = "stop"
    """RST_STREAM of HTTP/2."""
    PONG = "pong"
    """HTTP/2: a PING is answered."""
    SETTLED = "settled"
    """HTTP/2: SETTINGS are acknowledged."""


class End(Enum):
    """What the server does behind the last byte."""

    STAY = "stays open"
    CLOSE = "closes"
    RESET = "resets"


@dataclass(frozen=True)
class Case:
    """One answer of an HTTP/1.1 server, given to each request."""

    name: str
    section: str
    """Where the rule is, as `RFC 9112 §4`."""
    answer: bytes | tuple[bytes, ...]
    """The bytes, or pieces of them, each written when the one before has left."""
    expected: Expected
    """What engine and client make of it."""
    end: End = End.STAY
    method: str = "GET"
    client: Expected | None = None
    """What the client makes of it, where it does something else than the engine."""
    above: bool = False
    """Whether the client decides that above its connection, in Python."""
    requests: int = 2
    """Sent one after the other, with the same outcome; one, where the next would be a race."""
    deviation: str = ""
    """The RFC's words, where it would have something else or leaves the choice to us."""

    @property
    def pieces(self) -> tuple[bytes, ...]:
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @property
    def of_client(self) -> Expected:
        return self.client or self.expected

    def connections(self, expected: Expected) -> int:
        """How many the requests take: one for all, or one for each."""
        return 1 if expected.kept else self.requests

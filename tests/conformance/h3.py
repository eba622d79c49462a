"""What a case of HTTP/3 is, and words to write it in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from client.wire.h3_chaos import HEADERS, SETTINGS, frame, response
from trilane.client import errors

from .cases import BROKEN, REQUEST, Expected, Failed, Say, Seen, Step, Taken


class Code(IntEnum):
    """Error codes of RFC 9114 §8.1 and RFC 9204 §6."""

    H3_NO_ERROR = 0x100
    H3_GENERAL_PROTOCOL_ERROR = 0x101
    H3_INTERNAL_ERROR = 0x102
    H3_STREAM_CREATION_ERROR = 0x103
    H3_CLOSED_CRITICAL_STREAM = 0x104
    H3_FRAME_UNEXPECTED = 0x105
    H3_FRAME_ERROR = 0x106
    H3_EXCESSIVE_LOAD = 0x107
    H3_ID_ERROR = 0x108
    H3_SETTINGS_ERROR = 0x109
    H3_MISSING_SETTINGS = 0x10A
    H3_REQUEST_REJECTED = 0x10B
    H3_REQUEST_CANCELLED = 0x10C
    H3_REQUEST_INCOMPLETE = 0x10D
    H3_MESSAGE_ERROR = 0x10E
    H3_CONNECT_ERROR = 0x10F
    H3_VERSION_FALLBACK = 0x110
    QPACK_DECOMPRESSION_FAILED = 0x200
    QPACK_ENCODER_STREAM_ERROR = 0x201
    QPACK_DECODER_STREAM_ERROR = 0x202


# Streams of the server's, by their ids (RFC 9000 §2.1); of the client's, its control stream.
CONTROL, ENCODER, DECODER, OTHER, BIDIRECTIONAL, OF_CLIENT = 3, 7, 11, 15, 1, 2


GREETING = (Say(CONTROL, b"\0" + frame(SETTINGS)),)
ANSWER = (Say(REQUEST, response(), end=True),)


@dataclass(frozen=True)
class Case:
    """What an HTTP/3 server says on its streams."""

    name: str
    section: str
    """Where the rule is, as `RFC 9114 §4.1`."""
    expected: Expected = Taken()  # noqa: RUF009 - it is frozen
    """What engine and client make of it."""
    opening: tuple[Step, ...] = GREETING
    """Once on each connection, before its first answer."""
    answer: tuple[Step, ...] = ANSWER
    """To each request."""
    code: int | None = None
    """The code of the error, as the client's exception has it."""
    seen: Seen = Seen.NOTHING
    """How the server sees that code."""
    once: bool = False
    """Whether only the first request meets all this, and what comes later a good server."""
    method: str = "GET"
    deviation: str = ""
    """The RFC's words, where it would have something else or leaves the choice to us."""

    @property
    def requests(self) -> int:
        """Two, one after the other, show that a connection is kept."""
        return 2 if self.expected.kept or isinstance(self.expected, Taken) else 1

    def connections(self, expected: Expected) -> int:
        """How many the requests take: one for all, or one for each."""
        return 1 if expected.kept else self.requests


MALFORMED = replace(BROKEN, kept=True)
SHORTENED = Failed("body", errors.IncompleteBody, kept=True)
LIMITED = Failed("limit", errors.LimitExceeded, kept=True)
RESET = Failed("reset", errors.StreamReset, kept=True)


def breaks(
    name: str,
    section: str,
    code: int,
    *steps: Step,
    expected: Expected = BROKEN,
    deviation: str = "",
) -> Case:
    """Steps behind the greeting that end the connection with a code; nothing is answered."""
    return Case(
        name,
        section,
        expected,
        opening=GREETING + steps,
        answer=(),
        code=code,
        seen=Seen.CONNECTION_CLOSE,
        deviation=deviation,
    )


def begins(name: str, section: str, code: int, *steps: Step, deviation: str = "") -> Case:
    """As `breaks`, in place of the greeting."""
    return replace(breaks(name, section, code, deviation=deviation), opening=steps)


def goes(name: str, section: str, *steps: Step) -> Case:
    """Steps behind the greeting that change nothing for the requests."""
    return Case(name, section, opening=GREETING + steps)


def answers(
    name: str,
    section: str,
    data: bytes,
    expected: Expected,
    code: int | None = None,
    *,
    end: bool = False,
    method: str = "GET",
    deviation: str = "",
) -> Case:
    """Bytes on the stream of the request, which end the connection, the stream, or nothing.

    The code of an error of the stream is seen where the stream has not ended.
    """
    seen = Seen.NOTHING
    if isinstance(expected, Failed):
        seen = Seen.CONNECTION_CLOSE if not expected.kept else Seen.STOP_SENDING
        if end and seen is Seen.STOP_SENDING:
            seen = Seen.NOTHING
    return Case(
        name,
        section,
        expected,
        answer=(Say(REQUEST, data, end),),
        code=code,
        seen=seen,
        method=method,
        deviation=deviation,
    )


def literal(name: bytes, value: bytes) -> bytes:
    """A field line with literal name and value (RFC 9204 §4.5.6), both short."""
    length = bytes([0x27, len(name) - 7]) if len(name) >= 7 else bytes([0x20 | len(name)])
    return length + name + bytes([len(value)]) + value


def head(*lines: bytes) -> bytes:
    """A HEADERS frame of field lines."""
    return frame(HEADERS, b"\0\0" + b"".join(lines))

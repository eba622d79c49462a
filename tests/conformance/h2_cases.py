"""Cases of HTTP/2: those that h2specd has for clients, each as the frames it sends, and others.

h2specd cites RFC 7540, whose sections have the same numbers. `test_h2` asks h2specd itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from trilane.client import errors

from .cases import BEYOND, BROKEN, SILENT, Expected, Failed, Say, Seen, Step, Taken


class Code(IntEnum):
    """Error codes of RFC 9113 §7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING = range(7)
GOAWAY, WINDOW_UPDATE, CONTINUATION = range(7, 10)
END_STREAM = ACK = 1
END_HEADERS, PADDED = 4, 8
# The stream of the request.
ITS = 1
FRAME_SIZE = 16_384
"""The longest frame that both clients take."""
MOST = b"\x7f\xff\xff\xff"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9113 §4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def u32(value: int) -> bytes:
    """A number of 32 bits."""
    return value.to_bytes(4, "big")


def settings(identifier: int, value: int) -> bytes:
    """A SETTINGS frame of one setting."""
    return frame(SETTINGS, 0, 0, identifier.to_bytes(2, "big") + u32(value))


# `:status` 200 by the static table of HPACK, and another field.
OK, MORE = b"\x88", b"\0\1a\1b"
HEAD = frame(HEADERS, END_HEADERS, ITS, OK)
WHOLE = frame(HEADERS, END_HEADERS | END_STREAM, ITS, OK)
CUT = frame(HEADERS, 0, ITS, OK)
LAST = frame(CONTINUATION, END_HEADERS, ITS, MORE)
TEXT = frame(DATA, END_STREAM, ITS, b"test")
ASK = frame(PING, 0, 0, b"h2spec\0\0")
RESET = frame(RST_STREAM, 0, ITS, u32(Code.CANCEL))
GREETING = frame(SETTINGS, 0, 0)


@dataclass(frozen=True)
class Case:
    """What an HTTP/2 server says to a request."""

    section: str
    name: str
    said: bytes
    expected: Expected
    code: int | None = None
    """The code of the request's error."""
    seen: Seen = Seen.NOTHING
    """What the server sees: an answer, or an error,"""
    seen_code: int = 0
    """with this code."""
    greeting: bytes = GREETING
    """What the connection begins with."""

    @property
    def opening(self) -> tuple[Step, ...]:
        """Once on each connection."""
        return (Say(0, self.greeting),)

    @property
    def answer(self) -> tuple[Step, ...]:
        """To the request."""
        return (Say(0, self.said),)


EMPTY = Taken(b"")
MALFORMED = Failed("protocol", errors.RemoteProtocolError, kept=True)
GIVEN_UP = Failed("reset", errors.StreamReset, kept=True)


def breaks(
    section: str,
    name: str,
    said: bytes,
    code: int = Code.PROTOCOL_ERROR,
    *,
    expected: Expected = BROKEN,
) -> Case:
    """Frames that end the connection with a code; the request may have ended before."""
    of_request = {EMPTY: None, GIVEN_UP: Code.CANCEL}.get(expected, code)
    return Case(section, name, said, expected, of_request, Seen.CONNECTION_CLOSE, code)


def ends(section: str, name: str, said: bytes, code: int, expected: Expected) -> Case:
    """Frames that end the stream with a code."""
    return Case(section, name, said, expected, code, Seen.STOP_SENDING, code)


def answers(section: str, name: str, said: bytes, expected: Expected = EMPTY) -> Case:
    """Frames that change nothing: a PING among them is answered."""
    return Case(section, name, said, expected, None, Seen.PONG)


OF_H2SPECD = (
    Case("1", "Sends a server connection preface", WHOLE, EMPTY, None, Seen.SETTLED),
    answers("4.1", "Sends a frame with unknown type", frame(0x16, 0, 0, bytes(8)) + ASK + WHOLE),
    answers("4.1", "Sends a frame with undefined flag", frame(PING, 0x16, 0, bytes(8)) + WHOLE),
    answers(
        "4.1",
        "Sends a frame with reserved field bit",
        frame(PING, 0x16, 1 << 31, bytes(8)) + WHOLE,
    ),
    answers(
        "4.2",
        "Sends a DATA frame with 2^14 octets in length",
        HEAD + frame(DATA, END_STREAM, ITS, b"x" * FRAME_SIZE) + ASK,
        Taken(b"x" * FRAME_SIZE),
    ),
    breaks(
        "4.2",
        "Sends a large size DATA frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
        HEAD + frame(DATA, END_STREAM, ITS, b"x" * (FRAME_SIZE + 1)),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "4.2",
        "Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
        frame(HEADERS, END_HEADERS | END_STREAM, ITS, OK + MORE * (FRAME_SIZE // len(MORE) + 1)),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "4.3",
        "Sends invalid header block fragment",
        frame(HEADERS, END_HEADERS | END_STREAM, ITS, b"\x40"),
        Code.COMPRESSION_ERROR,
    ),
    breaks("5.1", "idle: Sends a DATA frame", frame(DATA, END_STREAM, 2, b"test")),
    breaks("5.1", "idle: Sends a RST_STREAM frame", frame(RST_STREAM, 0, 2, u32(Code.CANCEL))),
    breaks("5.1", "idle: Sends a WINDOW_UPDATE frame", frame(WINDOW_UPDATE, 0, 2, u32(100))),
    breaks("5.1", "idle: Sends a CONTINUATION frame", frame(CONTINUATION, END_HEADERS, 2, OK)),
    breaks(
        "5.1",
        "closed: Sends a DATA frame after sending RST_STREAM frame",
        HEAD + RESET + TEXT,
        Code.STREAM_CLOSED,
        expected=GIVEN_UP,
    ),
    breaks(
        "5.1",
        "closed: Sends a HEADERS frame after sending RST_STREAM frame",
        HEAD + RESET + WHOLE,
        Code.STREAM_CLOSED,
        expected=GIVEN_UP,
    ),
    breaks(
        "5.1",
        "closed: Sends a CONTINUATION frame after sending RST_STREAM frame",
        HEAD + RESET + LAST,
        expected=GIVEN_UP,
    ),
    breaks("5.1", "closed: Sends a DATA frame", WHOLE + TEXT, Code.STREAM_CLOSED, expected=EMPTY),
    breaks(
        "5.1", "closed: Sends a HEADERS frame", WHOLE + WHOLE, Code.STREAM_CLOSED, expected=EMPTY
    ),
    breaks("5.1", "closed: Sends a CONTINUATION frame", WHOLE + LAST, expected=EMPTY),
    breaks(
        "5.1.1",
        "Sends an unexpected stream identifier",
        frame(HEADERS, END_HEADERS | END_STREAM, 101, OK),
    ),
    breaks(
        "5.4.1",
        "Sends an invalid PING frame for connection close",
        frame(PING, 0, 3, bytes(8)),
    ),
    breaks(
        "5.4.1",
        "Sends an invalid PING frame to receive GOAWAY frame",
        frame(PING, 0, 3, bytes(8)),
    ),
    answers("5.5", "Sends an unknown extension frame", frame(0x16, 0, 0, bytes(8)) + ASK + WHOLE),
    breaks(
        "6.1",
        "Sends a DATA frame with 0x0 stream identifier",
        frame(DATA, END_STREAM, 0, b"test"),
    ),
    breaks(
        "6.1",
        'Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',
        WHOLE + TEXT,
        Code.STREAM_CLOSED,
        expected=EMPTY,
    ),
    breaks(
        "6.1",
        "Sends a DATA frame with invalid pad length",
        HEAD + frame(DATA, END_STREAM | PADDED, ITS, b"\6Test"),
    ),
    breaks(
        "6.2",
        "Sends a HEADERS frame without the END_HEADERS flag, and a PRIORITY frame",
        CUT + frame(PRIORITY, 0, ITS, bytes(4) + b"\xff") + LAST,
    ),
    breaks(
        "6.2",
        "Sends a HEADERS frame with 0x0 stream identifier",
        frame(HEADERS, END_HEADERS | END_STREAM, 0, OK),
    ),
    breaks(
        "6.2",
        "Sends a HEADERS frame with invalid pad length",
        frame(HEADERS, PADDED, ITS, b"\x11" + OK),
    ),
    breaks(
        "6.3",
        "Sends a PRIORITY frame with 0x0 stream identifier",
        frame(PRIORITY, 0, 0, bytes(4) + b"\xff"),
    ),
    breaks(
        "6.3",
        "Sends a PRIORITY frame with a length other than 5 octets",
        WHOLE + frame(PRIORITY, 0, ITS, b"\x80\0\0\1"),
        Code.FRAME_SIZE_ERROR,
        expected=EMPTY,
    ),
    breaks(
        "6.4",
        "Sends a RST_STREAM frame with 0x0 stream identifier",
        frame(RST_STREAM, 0, 0, u32(Code.CANCEL)),
    ),
    breaks(
        "6.4",
        "Sends a RST_STREAM frame on a idle stream",
        frame(RST_STREAM, 0, 2, u32(Code.CANCEL)),
    ),
    breaks(
        "6.4",
        "Sends a RST_STREAM frame with a length other than 4 octets",
        WHOLE + frame(RST_STREAM, 0, ITS, bytes(3)),
        Code.FRAME_SIZE_ERROR,
        expected=EMPTY,
    ),
    breaks(
        "6.5",
        "Sends a SETTINGS frame with ACK flag and payload",
        frame(SETTINGS, ACK, 0, b"\0"),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "6.5",
        "Sends a SETTINGS frame with a stream identifier other than 0x0",
        frame(SETTINGS, 0, 1, b"\0\3\0\0\0\x64"),
    ),
    breaks(
        "6.5",
        "Sends a SETTINGS frame with a length other than a multiple of 6 octets",
        frame(SETTINGS, 0, 0, b"\0\3\0"),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "6.5.2",
        "SETTINGS_INITIAL_WINDOW_SIZE (0x4): "
        "Sends the value above the maximum flow control window size",
        settings(4, 1 << 31),
        Code.FLOW_CONTROL_ERROR,
    ),
    breaks(
        "6.5.2",
        "SETTINGS_MAX_FRAME_SIZE (0x5): Sends the value below the initial value",
        settings(5, FRAME_SIZE - 1),
    ),
    breaks(
        "6.5.2",
        "SETTINGS_MAX_FRAME_SIZE (0x5): Sends the value above the maximum allowed frame size",
        settings(5, 1 << 24),
    ),
    Case(
        "6.5.2",
        "Sends a SETTINGS frame with unknown identifier",
        ASK + WHOLE,
        EMPTY,
        None,
        Seen.PONG,
        greeting=settings(0xFF, 1),
    ),
    Case(
        "6.5.3",
        "Sends a SETTINGS frame without ACK flag",
        WHOLE,
        EMPTY,
        None,
        Seen.SETTLED,
        greeting=settings(3, 100),
    ),
    answers("6.7", "Sends a PING frame", ASK + WHOLE),
    answers("6.7", "Sends a PING frame with ACK", frame(PING, ACK, 0, b"invalid\0") + ASK + WHOLE),
    breaks(
        "6.7",
        "Sends a PING frame with a stream identifier field value other than 0x0",
        frame(PING, 0, 1, bytes(8)),
    ),
    breaks(
        "6.7",
        "Sends a PING frame with a length field value other than 8",
        frame(PING, 0, 0, bytes(6)),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "6.8",
        "Sends a GOAWAY frame with a stream identifier other than 0x0",
        frame(GOAWAY, 0, 1, bytes(8)),
    ),
    breaks(
        "6.9",
        "Sends a WINDOW_UPDATE frame with a flow control window increment of 0",
        frame(WINDOW_UPDATE, 0, 0, u32(0)),
    ),
    ends(
        "6.9",
        "Sends a WINDOW_UPDATE frame with a flow control window increment of 0 on a stream",
        HEAD + frame(WINDOW_UPDATE, 0, ITS, u32(0)),
        Code.PROTOCOL_ERROR,
        MALFORMED,
    ),
    breaks(
        "6.9",
        "Sends a WINDOW_UPDATE frame with a length other than 4 octets",
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"),
        Code.FRAME_SIZE_ERROR,
    ),
    breaks(
        "6.9.1",
        "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1",
        frame(WINDOW_UPDATE, 0, 0, MOST) * 2,
        Code.FLOW_CONTROL_ERROR,
    ),
    ends(
        "6.9.1",
        "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1"
        " on a stream",
        HEAD + frame(WINDOW_UPDATE, 0, ITS, MOST) * 2,
        Code.FLOW_CONTROL_ERROR,
        MALFORMED,
    ),
    answers(
        "6.10",
        "Sends multiple CONTINUATION frames preceded by a HEADERS frame",
        frame(HEADERS, END_STREAM, ITS, OK) + frame(CONTINUATION, 0, ITS, MORE) + LAST + ASK,
    ),
    breaks(
        "6.10",
        "Sends a CONTINUATION frame followed by any frame other than CONTINUATION",
        CUT + frame(CONTINUATION, 0, ITS, MORE) + TEXT,
    ),
    breaks(
        "6.10",
        "Sends a CONTINUATION frame with 0x0 stream identifier",
        frame(HEADERS, END_STREAM, ITS, OK) + frame(CONTINUATION, END_HEADERS, 0, MORE),
    ),
    breaks(
        "6.10",
        "Sends a CONTINUATION frame preceded by a HEADERS frame with END_HEADERS flag",
        WHOLE + LAST,
        expected=EMPTY,
    ),
    breaks(
        "6.10",
        "Sends a CONTINUATION frame preceded by a CONTINUATION frame with END_HEADERS flag",
        frame(HEADERS, END_STREAM, ITS, OK) + LAST + LAST,
        expected=EMPTY,
    ),
    breaks(
        "6.10",
        "Sends a CONTINUATION frame preceded by a DATA frame",
        HEAD + TEXT + frame(CONTINUATION, 0, ITS, MORE) + frame(CONTINUATION, END_HEADERS, 0, MORE),
        expected=Taken(b"test"),
    ),
)

HINTS = frame(HEADERS, END_HEADERS, ITS, b"\x08\x03103")
QUIET = replace(SILENT, kept=True)
LIMITED = replace(BEYOND, kept=True)
SHORTENED = Failed("body", errors.IncompleteBody, kept=True)


def stated(length: bytes) -> bytes:
    """A head with this `content-length` of two digits."""
    return frame(HEADERS, END_HEADERS, ITS, OK + b"\x0f\x0d\x02" + length)


def given_up(name: str, said: bytes) -> Case:
    """A response that never ends, which the client waits for no longer."""
    return Case("5.4.2", name, said, QUIET, None, Seen.STOP_SENDING, Code.CANCEL)


def floods(section: str, name: str, said: bytes) -> Case:
    """Work without progress, which ends the connection."""
    return breaks(section, name, said, Code.ENHANCE_YOUR_CALM, expected=BEYOND)


OTHERS = (
    given_up("silence", b""),
    given_up("silence behind the head", HEAD),
    Case(
        "8.1",
        "three HEADERS with 1xx before the response",
        HINTS * 3 + WHOLE,
        Taken(b"", informational=(103,) * 3),
    ),
    ends(
        "8.1",
        "DATA before HEADERS",
        frame(DATA, 0, ITS, b"hello world"),
        Code.PROTOCOL_ERROR,
        MALFORMED,
    ),
    ends("8.1", "a second head", HEAD * 2, Code.PROTOCOL_ERROR, MALFORMED),
    ends(
        "8.1",
        "trailers that do not end the stream",
        HEAD + frame(HEADERS, END_HEADERS, ITS, MORE),
        Code.PROTOCOL_ERROR,
        MALFORMED,
    ),
    ends(
        "8.1.1",
        "more content than content-length",
        stated(b"10") + frame(DATA, 0, ITS, b"hello world"),
        Code.PROTOCOL_ERROR,
        SHORTENED,
    ),
    ends(
        "8.1.1",
        "less content than content-length",
        stated(b"12") + frame(DATA, END_STREAM, ITS, b"hello world"),
        Code.PROTOCOL_ERROR,
        SHORTENED,
    ),
    ends(
        "8.3.2",
        "a head without :status",
        frame(HEADERS, END_HEADERS, ITS, MORE),
        Code.PROTOCOL_ERROR,
        MALFORMED,
    ),
    breaks(
        "8.4",
        "PUSH_PROMISE",
        frame(PUSH_PROMISE, END_HEADERS, ITS, u32(2) + OK),
    ),
    *(
        Case(
            "6.4",
            f"RST_STREAM with {code.name}",
            frame(RST_STREAM, 0, ITS, u32(code)),
            GIVEN_UP,
            code,
        )
        for code in (Code.INTERNAL_ERROR, Code.CANCEL, Code.ENHANCE_YOUR_CALM)
    ),
    breaks(
        "4.3",
        "an index that no table has",
        frame(HEADERS, END_HEADERS | END_STREAM, ITS, b"\xff\xff\x7f"),
        Code.COMPRESSION_ERROR,
    ),
    floods("10.5", "33 HEADERS with 1xx", HINTS * 33),
    ends(
        "10.5.1",
        "a field of 4,000 bytes, again and again by its index",
        frame(
            HEADERS,
            END_HEADERS,
            ITS,
            OK + b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 10_000,
        ),
        Code.ENHANCE_YOUR_CALM,
        LIMITED,
    ),
    floods("10.5", "CONTINUATION again and again", CUT + frame(CONTINUATION, 0, ITS, MORE) * 5000),
    floods("10.5", "PING again and again", ASK * 6000),
    floods("10.5", "SETTINGS again and again", GREETING * 2000),
    floods("10.5", "PRIORITY again and again", frame(PRIORITY, 0, ITS, bytes(5)) * 10_000),
    floods("10.5", "an unknown frame again and again", frame(0x42, 0, 0, b"what") * 10_000),
    breaks(
        "10.5",
        "RST_STREAM again and again",
        RESET * 10_000,
        Code.ENHANCE_YOUR_CALM,
        expected=GIVEN_UP,
    ),
    floods("10.5", "GOAWAY again and again", frame(GOAWAY, 0, 0, MOST + u32(0)) * 10_000),
    floods("10.5", "WINDOW_UPDATE again and again", frame(WINDOW_UPDATE, 0, 0, u32(1)) * 20_000),
    floods("10.5", "an empty DATA again and again", HEAD + frame(DATA, 0, ITS) * 2000),
    floods(
        "10.5",
        "padding again and again",
        HEAD + frame(DATA, PADDED, ITS, b"\x0f" + bytes(15)) * 2000,
    ),
)

CASES = OF_H2SPECD + OTHERS

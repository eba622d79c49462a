"""Cases of HTTP/3: frames and field sections on the stream of a request."""

from __future__ import annotations

from client.wire.h3_chaos import (
    DATA,
    GOAWAY,
    HEADERS,
    OK,
    PUSH_PROMISE,
    SETTINGS,
    frame,
    response,
)

from .cases import BEYOND, BROKEN, Taken
from .h3 import LIMITED, MALFORMED, SHORTENED, Case, Code, answers, head, literal

BODY = b"hello world"
STATUS = b"\xd9"
"""`:status` 200, by the static table."""
DATA_11 = frame(DATA, BODY)
HINTS = frame(HEADERS, b"\0\0\xd8")
UNKNOWN = frame(0x21, b"grease") + frame(0x40)
ORDER, LAYOUT = "RFC 9114 §4.1", "RFC 9114 §7.1"
FIELDS, PSEUDO, MESSAGE = "RFC 9114 §4.2", "RFC 9114 §4.3", "RFC 9114 §4.1.2"
DISCARD = "RFC 9114 §10.5.1: a client can discard responses that it cannot process"
LIST = (
    "RFC 9110 §8.6: a recipient of a Content-Length header field value consisting of the same"
    " decimal value repeated as a comma-separated list MAY either reject the message as invalid or"
    " replace that invalid field value with a single instance of the decimal value"
)


def with_fields(*lines: bytes) -> bytes:
    """A response with these field lines behind its status."""
    return head(STATUS, *lines) + DATA_11


def stated(*values: bytes) -> bytes:
    """A response with these fields of content-length."""
    return with_fields(*(literal(b"content-length", each) for each in values))


def trailing(*lines: bytes) -> bytes:
    """A response with these field lines in its trailers."""
    return response() + head(*lines)


FRAMES = (
    answers("an ordinary response", ORDER, response(), Taken(), end=True),
    answers(
        "content in several frames",
        ORDER,
        frame(HEADERS, OK) + frame(DATA, b"hello ") + frame(DATA) + frame(DATA, b"world"),
        Taken(),
        end=True,
    ),
    answers("no content", ORDER, frame(HEADERS, OK), Taken(b""), end=True),
    answers(
        "trailers", ORDER, trailing(literal(b"a", b"b")), Taken(trailers=(("a", "b"),)), end=True
    ),
    answers("empty trailers", ORDER, trailing(), Taken(), end=True),
    answers(
        "1xx before the response",
        ORDER,
        HINTS * 2 + response(),
        Taken(informational=(103, 103)),
        end=True,
    ),
    answers("32 × 1xx", ORDER, HINTS * 32 + response(), Taken(informational=(103,) * 32), end=True),
    answers("33 × 1xx", "RFC 9114 §10.5", HINTS * 33, LIMITED, Code.H3_EXCESSIVE_LOAD),
    answers("nothing", MESSAGE, b"", MALFORMED, Code.H3_MESSAGE_ERROR, end=True),
    answers("only 1xx", MESSAGE, HINTS, MALFORMED, Code.H3_MESSAGE_ERROR, end=True),
    answers("DATA before HEADERS", ORDER, DATA_11, BROKEN, Code.H3_FRAME_UNEXPECTED),
    answers("an empty DATA before HEADERS", ORDER, frame(DATA), BROKEN, Code.H3_FRAME_UNEXPECTED),
    answers("DATA behind 1xx", ORDER, HINTS + DATA_11, BROKEN, Code.H3_FRAME_UNEXPECTED),
    answers(
        "DATA behind the trailers",
        ORDER,
        trailing(literal(b"a", b"b")) + DATA_11,
        BROKEN,
        Code.H3_FRAME_UNEXPECTED,
    ),
    answers(
        "HEADERS behind the trailers",
        ORDER,
        trailing(literal(b"a", b"b")) + frame(HEADERS, OK),
        BROKEN,
        Code.H3_FRAME_UNEXPECTED,
    ),
    answers(
        "a second response on the stream", ORDER, response() * 2, MALFORMED, Code.H3_MESSAGE_ERROR
    ),
    *(
        answers(f"{name} on the stream of a request", section, frame(kind, payload), BROKEN, code)
        for name, section, kind, payload, code in (
            ("SETTINGS", "RFC 9114 §7.2.4", SETTINGS, b"", Code.H3_FRAME_UNEXPECTED),
            ("GOAWAY", "RFC 9114 §7.2.6", GOAWAY, b"\0", Code.H3_FRAME_UNEXPECTED),
            ("CANCEL_PUSH", "RFC 9114 §7.2.3", 3, b"\0", Code.H3_FRAME_UNEXPECTED),
            ("MAX_PUSH_ID", "RFC 9114 §7.2.7", 0x0D, b"\0", Code.H3_FRAME_UNEXPECTED),
            ("PUSH_PROMISE", "RFC 9114 §7.2.5", PUSH_PROMISE, b"\0" + OK, Code.H3_ID_ERROR),
            ("PRIORITY of HTTP/2", "RFC 9114 §7.2.8", 2, bytes(5), Code.H3_FRAME_UNEXPECTED),
            ("PING of HTTP/2", "RFC 9114 §7.2.8", 6, bytes(8), Code.H3_FRAME_UNEXPECTED),
            (
                "WINDOW_UPDATE of HTTP/2",
                "RFC 9114 §7.2.8",
                8,
                b"\0\0\0\1",
                Code.H3_FRAME_UNEXPECTED,
            ),
            ("CONTINUATION of HTTP/2", "RFC 9114 §7.2.8", 9, OK, Code.H3_FRAME_UNEXPECTED),
        )
    ),
    answers(
        "SETTINGS between head and content",
        "RFC 9114 §7.2.4",
        frame(HEADERS, OK) + frame(SETTINGS),
        BROKEN,
        Code.H3_FRAME_UNEXPECTED,
    ),
    answers(
        "unknown frames everywhere",
        "RFC 9114 §9",
        UNKNOWN
        + HINTS
        + UNKNOWN
        + frame(HEADERS, OK)
        + UNKNOWN
        + DATA_11
        + UNKNOWN
        + head(literal(b"a", b"b"))
        + UNKNOWN,
        Taken(trailers=(("a", "b"),), informational=(103,)),
        end=True,
    ),
    answers(
        "types and lengths of frames as long as they go",
        LAYOUT,
        b"\xc0" + bytes(6) + b"\1\x40\3" + OK + b"\x40\0\x80\0\0\x0b" + BODY,
        Taken(),
        end=True,
    ),
    answers("an end inside a frame's type", LAYOUT, b"\x80", BROKEN, Code.H3_FRAME_ERROR, end=True),
    answers(
        "an end inside a frame's length",
        LAYOUT,
        frame(HEADERS, OK) + b"\0\x40",
        BROKEN,
        Code.H3_FRAME_ERROR,
        end=True,
    ),
    answers(
        "an end inside HEADERS",
        LAYOUT,
        frame(HEADERS, OK)[:-1],
        BROKEN,
        Code.H3_FRAME_ERROR,
        end=True,
    ),
    answers("an end inside DATA", LAYOUT, response()[:-1], BROKEN, Code.H3_FRAME_ERROR, end=True),
    answers(
        "an end inside a DATA of 2^62 - 1 bytes",
        LAYOUT,
        frame(HEADERS, OK) + b"\0" + b"\xff" * 8 + BODY,
        BROKEN,
        Code.H3_FRAME_ERROR,
        end=True,
    ),
    answers(
        "an end inside trailers",
        LAYOUT,
        trailing(literal(b"a", b"b"))[:-1],
        BROKEN,
        Code.H3_FRAME_ERROR,
        end=True,
    ),
    answers(
        "an end inside an unknown frame",
        LAYOUT,
        response() + frame(0x21, b"grease")[:-1],
        BROKEN,
        Code.H3_FRAME_ERROR,
        end=True,
    ),
    answers(
        "HEADERS of 2^62 - 1 bytes",
        "RFC 9114 §4.2.2",
        b"\1" + b"\xff" * 8,
        LIMITED,
        Code.H3_EXCESSIVE_LOAD,
        deviation=DISCARD,
    ),
    answers(
        "fields of 257 KiB",
        "RFC 9114 §4.2.2",
        head(STATUS, *[literal(b"a", b"b" * 63)] * 2800),
        LIMITED,
        Code.H3_EXCESSIVE_LOAD,
        deviation=DISCARD,
    ),
    answers(
        "unknown frames of 70,000 bytes",
        "RFC 9114 §10.5",
        frame(0x21, bytes(70_000)),
        BEYOND,
        Code.H3_EXCESSIVE_LOAD,
    ),
)

CONTENT = (
    answers("a content-length that is right", MESSAGE, stated(b"11"), Taken(), end=True),
    answers(
        "the same content-length twice",
        "RFC 9110 §8.6",
        stated(b"11", b"11"),
        Taken(),
        end=True,
        deviation=LIST,
    ),
    answers(
        "the same content-length as a list",
        "RFC 9110 §8.6",
        stated(b"11, 11"),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
        deviation=LIST,
    ),
    answers("two content-lengths", MESSAGE, stated(b"11", b"12"), MALFORMED, Code.H3_MESSAGE_ERROR),
    answers(
        "less content than content-length",
        MESSAGE,
        stated(b"12"),
        SHORTENED,
        Code.H3_MESSAGE_ERROR,
        end=True,
    ),
    answers(
        "more content than content-length", MESSAGE, stated(b"10"), SHORTENED, Code.H3_MESSAGE_ERROR
    ),
    answers(
        "more content than content-length in a second frame",
        MESSAGE,
        stated(b"11") + frame(DATA, b"!"),
        SHORTENED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(
        "content and a content-length of 0", MESSAGE, stated(b"0"), SHORTENED, Code.H3_MESSAGE_ERROR
    ),
    *(
        answers(
            f"a content-length {name}", MESSAGE, stated(value), MALFORMED, Code.H3_MESSAGE_ERROR
        )
        for name, value in (
            ("with a sign", b"+11"),
            ("in words", b"eleven"),
            ("that is empty", b""),
            ("of 2^64", b"18446744073709551616"),
        )
    ),
    answers(
        "204 with content",
        MESSAGE,
        head(literal(b":status", b"204")) + DATA_11,
        SHORTENED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(
        "304 with content",
        MESSAGE,
        head(literal(b":status", b"304")) + DATA_11,
        SHORTENED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(
        "304 with a content-length",
        MESSAGE,
        head(literal(b":status", b"304"), literal(b"content-length", b"11")),
        Taken(b"", 304),
        end=True,
    ),
    answers(
        "HEAD and a content-length",
        MESSAGE,
        head(STATUS, literal(b"content-length", b"11")),
        Taken(b""),
        end=True,
        method="HEAD",
    ),
    answers(
        "HEAD and content", MESSAGE, stated(b"11"), SHORTENED, Code.H3_MESSAGE_ERROR, method="HEAD"
    ),
    answers(
        "101", "RFC 9114 §4.5", head(literal(b":status", b"101")), MALFORMED, Code.H3_MESSAGE_ERROR
    ),
)

SECTIONS = (
    answers(
        "no :status", "RFC 9114 §4.3.2", frame(HEADERS, b"\0\0"), MALFORMED, Code.H3_MESSAGE_ERROR
    ),
    answers(
        "only other fields",
        "RFC 9114 §4.3.2",
        head(literal(b"a", b"b")),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(":status twice", PSEUDO, head(STATUS, STATUS), MALFORMED, Code.H3_MESSAGE_ERROR),
    answers(
        ":status behind another field",
        PSEUDO,
        head(literal(b"a", b"b"), STATUS),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(":path in a response", PSEUDO, head(STATUS, b"\xc1"), MALFORMED, Code.H3_MESSAGE_ERROR),
    answers(
        ":method in a response", PSEUDO, head(b"\xd1", STATUS), MALFORMED, Code.H3_MESSAGE_ERROR
    ),
    answers(
        "an unknown pseudo-field",
        PSEUDO,
        head(STATUS, literal(b":foo", b"b")),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
    ),
    answers(":status in the trailers", PSEUDO, trailing(STATUS), MALFORMED, Code.H3_MESSAGE_ERROR),
    *(
        answers(
            f":status {name}",
            "RFC 9114 §4.3.2",
            head(literal(b":status", value)),
            MALFORMED,
            Code.H3_MESSAGE_ERROR,
        )
        for name, value in (
            ("that is empty", b""),
            ("of two digits", b"20"),
            ("of four digits", b"2000"),
            ("with a sign", b"+20"),
            ("with letters", b"2OO"),
            ("099", b"099"),
            ("with a reason phrase", b"200 OK"),
        )
    ),
    answers(
        ":status 600",
        "RFC 9110 §15",
        head(literal(b":status", b"600")) + DATA_11,
        Taken(status=600),
        end=True,
    ),
    *(
        answers(
            f"a field name {name}",
            FIELDS,
            with_fields(literal(field, b"b")),
            MALFORMED,
            Code.H3_MESSAGE_ERROR,
        )
        for name, field in (
            ("in upper case", b"A"),
            ("that is empty", b""),
            ("with a blank", b"a b"),
            ("with a colon", b"a:"),
            ("with NUL", b"a\0"),
            ("with CRLF", b"a\r\nb"),
            ("with an octet above 127", b"gr\xfcn"),
        )
    ),
    answers(
        "a field name in upper case in the trailers",
        FIELDS,
        trailing(literal(b"A", b"b")),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
    ),
    *(
        answers(
            f"a field value with {name}",
            "RFC 9114 §10.3",
            with_fields(literal(b"a", value)),
            MALFORMED,
            Code.H3_MESSAGE_ERROR,
        )
        for name, value in (
            ("NUL", b"b\0"),
            ("CR", b"b\rc"),
            ("LF", b"b\nc"),
            ("CRLF and a field", b"b\r\nc: d"),
            ("another control character", b"b\x01"),
            ("DEL", b"b\x7f"),
        )
    ),
    answers(
        "a field value with octets above 127",
        "RFC 9110 §5.5",
        with_fields(literal(b"a", b"gr\xfcn")),
        Taken(fields=(("a", "gr\xfcn"),)),
        end=True,
    ),
    *(
        answers(
            f"the field {name}",
            FIELDS,
            with_fields(literal(name.encode(), b"b")),
            MALFORMED,
            Code.H3_MESSAGE_ERROR,
        )
        for name in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
    ),
    answers(
        "connection in the trailers",
        FIELDS,
        trailing(literal(b"connection", b"close")),
        MALFORMED,
        Code.H3_MESSAGE_ERROR,
    ),
)

COMPRESSION = (
    *(
        answers(name, section, frame(HEADERS, data), BROKEN, Code.QPACK_DECOMPRESSION_FAILED)
        for name, section, data in (
            ("no section prefix", "RFC 9204 §4.5.1", b""),
            ("half a section prefix", "RFC 9204 §4.5.1", b"\0"),
            ("a Required Insert Count of 1", "RFC 9204 §4.5.1.1", b"\2\0\xd9"),
            ("a negative Base", "RFC 9204 §4.5.1.2", b"\0\x80\xd9"),
            (
                "the last but one entry that the static table does not have",
                "RFC 9204 §3.1",
                b"\0\0\xff\x25",
            ),
            (
                "the first entry that the static table does not have",
                "RFC 9204 §3.1",
                b"\0\0\xff\x24",
            ),
            ("a name that the static table does not have", "RFC 9204 §3.1", b"\0\0\xd9\x5f\x54\1x"),
            ("an entry of the dynamic table", "RFC 9204 §4.5.2", b"\0\0\x80"),
            ("an entry of the dynamic table behind the Base", "RFC 9204 §4.5.3", b"\0\0\x10"),
            ("a name of the dynamic table", "RFC 9204 §4.5.4", b"\0\0\x40\1x"),
            ("a name of the dynamic table behind the Base", "RFC 9204 §4.5.5", b"\0\0\0\1x"),
            (
                "an index of more than 62 bits",
                "RFC 9204 §4.1.1",
                b"\0\0\xff" + b"\xff" * 10 + b"\1",
            ),
            ("an index that is cut", "RFC 9204 §4.1.1", b"\0\0\xff"),
            ("a value that is cut", "RFC 9204 §4.1.2", b"\0\0\x51\2/"),
            ("a name that is cut", "RFC 9204 §4.1.2", b"\0\0\x24abc"),
            ("a field line without a value", "RFC 9204 §4.1.2", b"\0\0\x21a"),
            (
                "Huffman code with 8 bits of padding",
                "RFC 9204 §4.1.2",
                b"\0\0\xd9\x21a\x82\x1f\xff",
            ),
            ("Huffman code with padding of zeros", "RFC 9204 §4.1.2", b"\0\0\xd9\x21a\x81\x18"),
            ("Huffman code with EOS", "RFC 9204 §4.1.2", b"\0\0\xd9\x21a\x84\xff\xff\xff\xff"),
        )
    ),
    answers(
        "a Base that means nothing",
        "RFC 9204 §4.5.1.2",
        frame(HEADERS, b"\0\5\xd9") + DATA_11,
        Taken(),
        end=True,
    ),
    answers(
        "Huffman code",
        "RFC 9204 §4.1.2",
        frame(HEADERS, b"\0\0\xd9\x21a\x81\x1f") + DATA_11,
        Taken(fields=(("a", "a"),)),
        end=True,
    ),
    answers(
        "a never-indexed field line",
        "RFC 9204 §4.5.6",
        frame(HEADERS, b"\0\0\xd9\x31a\1b") + DATA_11,
        Taken(fields=(("a", "b"),)),
        end=True,
    ),
    answers(
        "a dynamic reference in the trailers",
        "RFC 9204 §4.5.2",
        response() + frame(HEADERS, b"\2\0\x80"),
        BROKEN,
        Code.QPACK_DECOMPRESSION_FAILED,
    ),
)

CASES: tuple[Case, ...] = FRAMES + CONTENT + SECTIONS + COMPRESSION

"""Cases of HTTP/1.1: status lines, field lines, and responses that are not the final one."""

from __future__ import annotations

from .cases import BEYOND, BROKEN, CLOSED, SILENT, Case, End, Taken

BODY = b"hello world"
LENGTH = b"Content-Length: 11\r\n"
LIMIT = 64 * 1024
"""Bytes of a head that both clients take."""

# Words of the RFCs that leave the choice to the recipient.
LINE_FEED = (
    "RFC 9112 §2.2: a recipient MAY recognize a single LF as a line terminator and ignore any"
    " preceding CR"
)
WORDS = "RFC 9112 §4: recipients MAY instead parse on whitespace-delimited word boundaries"
STATUS = (
    "RFC 9110 §15: a client that receives a response with an invalid status code SHOULD process"
    " the response as if it had a 5xx (Server Error) status code"
)
MINOR = (
    "RFC 9110 §6.2: SHOULD process the message as if it were in the highest minor version within"
    " that major version to which the recipient is conformant"
)


def line(status_line: bytes) -> bytes:
    """A response with this status line."""
    return status_line + b"\r\n" + LENGTH + b"\r\n" + BODY


def field(*lines: bytes) -> bytes:
    """A response with these field lines before its length."""
    return b"HTTP/1.1 200 OK\r\n" + b"".join(each + b"\r\n" for each in lines) + LENGTH + REST


def sized(size: int) -> bytes:
    """A response whose head has this many bytes."""
    padding = size - len(field(b"A: ")) + len(BODY)
    return field(b"A: " + b"a" * padding)


REST = b"\r\n" + BODY
FINAL = b"HTTP/1.1 200 OK\r\n" + LENGTH + REST
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"

STATUS_LINES = (
    Case("an ordinary response", "RFC 9112 §4", FINAL, Taken()),
    Case("a response in two pieces", "RFC 9112 §4", (FINAL[:20], FINAL[20:]), Taken()),
    Case("one byte at a time", "RFC 9112 §4", tuple(bytes([b]) for b in FINAL), Taken()),
    Case("no reason phrase", "RFC 9112 §4", line(b"HTTP/1.1 200 "), Taken()),
    Case(
        "no blank behind the status code",
        "RFC 9112 §4",
        line(b"HTTP/1.1 200"),
        Taken(),
        deviation=WORDS,
    ),
    Case(
        "a reason phrase with octets above 127",
        "RFC 9112 §4",
        line(b"HTTP/1.1 200 gr\xfcn"),
        Taken(),
    ),
    Case(
        "a reason phrase that begins with a blank",
        "RFC 9112 §4",
        line(b"HTTP/1.1 200  OK"),
        Taken(),
    ),
    Case("a reason phrase with a tab", "RFC 9112 §4", line(b"HTTP/1.1 200 all\tright"), Taken()),
    Case(
        "a control character in the reason phrase",
        "RFC 9112 §4",
        line(b"HTTP/1.1 200 O\x01K"),
        BROKEN,
    ),
    Case("NUL in the reason phrase", "RFC 9112 §4", line(b"HTTP/1.1 200 O\0K"), BROKEN),
    Case("DEL in the reason phrase", "RFC 9112 §4", line(b"HTTP/1.1 200 O\x7fK"), BROKEN),
    Case(
        "two blanks before the status code",
        "RFC 9112 §4",
        line(b"HTTP/1.1  200 OK"),
        BROKEN,
        deviation=WORDS,
    ),
    Case(
        "a tab before the status code",
        "RFC 9112 §4",
        line(b"HTTP/1.1\t200 OK"),
        BROKEN,
        deviation=WORDS,
    ),
    Case("no blank before the status code", "RFC 9112 §4", line(b"HTTP/1.1200 OK"), BROKEN),
    Case("a blank before the version", "RFC 9112 §4", line(b" HTTP/1.1 200 OK"), BROKEN),
    Case("no status code", "RFC 9112 §4", line(b"HTTP/1.1 OK"), BROKEN),
    Case("a status code of two digits", "RFC 9112 §4", line(b"HTTP/1.1 20 OK"), BROKEN),
    Case("a status code of four digits", "RFC 9112 §4", line(b"HTTP/1.1 2000 OK"), BROKEN),
    Case("a status code with letters", "RFC 9112 §4", line(b"HTTP/1.1 2OO OK"), BROKEN),
    Case("a status code with a sign", "RFC 9112 §4", line(b"HTTP/1.1 +20 OK"), BROKEN),
    Case("a status code with a decimal point", "RFC 9112 §4", line(b"HTTP/1.1 200.1 OK"), BROKEN),
    Case("a status line without end", "RFC 9112 §4", line(b"HTTP/1.1 200 " + b"a" * LIMIT), BEYOND),
    Case("status 000", "RFC 9110 §15", line(b"HTTP/1.1 000 None"), BROKEN, deviation=STATUS),
    Case("status 099", "RFC 9110 §15", line(b"HTTP/1.1 099 Low"), BROKEN, deviation=STATUS),
    Case("status 600", "RFC 9110 §15", line(b"HTTP/1.1 600 High"), Taken(status=600)),
    Case("status 999", "RFC 9110 §15", line(b"HTTP/1.1 999 Highest"), Taken(status=999)),
    Case(
        "status 299, which nobody registered",
        "RFC 9110 §15",
        line(b"HTTP/1.1 299 Fine"),
        Taken(status=299),
    ),
    Case(
        "status 499, which nobody registered",
        "RFC 9110 §15",
        line(b"HTTP/1.1 499 Mine"),
        Taken(status=499),
    ),
    Case("version 1.0", "RFC 9112 §9.3", line(b"HTTP/1.0 200 OK"), Taken(kept=False)),
    Case("version 1.2", "RFC 9110 §6.2", line(b"HTTP/1.2 200 OK"), BROKEN, deviation=MINOR),
    Case("version 2.0", "RFC 9112 §2.3", line(b"HTTP/2.0 200 OK"), BROKEN),
    Case("version 0.9", "RFC 9112 §2.3", line(b"HTTP/0.9 200 OK"), BROKEN),
    Case("version 1.10", "RFC 9112 §2.3", line(b"HTTP/1.10 200 OK"), BROKEN),
    Case("version 01.1", "RFC 9112 §2.3", line(b"HTTP/01.1 200 OK"), BROKEN),
    Case("a version without a point", "RFC 9112 §2.3", line(b"HTTP/11 200 OK"), BROKEN),
    Case("a version in lower case", "RFC 9112 §2.3", line(b"http/1.1 200 OK"), BROKEN),
    Case("another protocol's name", "RFC 9112 §2.3", line(b"ICY 200 OK"), BROKEN),
    Case("content without a head, as HTTP/0.9 had it", "RFC 9112 §2.3", BODY, BROKEN, End.CLOSE),
    Case("a TLS alert", "RFC 9112 §2.3", b"\x15\x03\x01\0\x02\x02\x46", BROKEN),
    Case("SETTINGS of HTTP/2", "RFC 9112 §2.3", b"\0\0\0\4\0\0\0\0\0", BROKEN),
    Case("an empty line before the status line", "RFC 9112 §2.2", b"\r\n" + FINAL, BROKEN),
    Case("nothing but an empty line", "RFC 9112 §2.2", b"\r\n\r\n", BROKEN, End.CLOSE),
    Case("CR alone in the status line", "RFC 9112 §2.2", line(b"HTTP/1.1 200 O\rK"), BROKEN),
    Case("CR twice behind the status line", "RFC 9112 §2.2", line(b"HTTP/1.1 200 OK\r"), BROKEN),
    Case(
        "LF alone behind the status line",
        "RFC 9112 §2.2",
        FINAL.replace(b"\r\n", b"\n", 1),
        Taken(),
        deviation=LINE_FEED,
    ),
    Case(
        "LF alone behind every line",
        "RFC 9112 §2.2",
        FINAL.replace(b"\r\n", b"\n"),
        Taken(),
        deviation=LINE_FEED,
    ),
    Case(
        "LF alone as the empty line",
        "RFC 9112 §2.2",
        FINAL.replace(b"\r\n\r\n", b"\r\n\n"),
        Taken(),
        deviation=LINE_FEED,
    ),
    Case("silence", "RFC 9112 §9.5", b"", SILENT),
    Case("silence inside the head", "RFC 9112 §9.5", FINAL[:20], SILENT),
    Case("a close instead of a response", "RFC 9112 §8", b"", CLOSED, End.CLOSE),
    Case("a close inside the status line", "RFC 9112 §8", FINAL[:5], CLOSED, End.CLOSE),
    Case("a close behind the status line", "RFC 9112 §8", FINAL[:17], CLOSED, End.CLOSE),
    Case("a close before the empty line", "RFC 9112 §8", FINAL[: -len(REST)], CLOSED, End.CLOSE),
    Case("a reset instead of a response", "RFC 9112 §8", b"", CLOSED, End.RESET),
    Case("a reset inside the head", "RFC 9112 §8", FINAL[:20], CLOSED, End.RESET),
)

FIELD_LINES = (
    Case("no blank behind the colon", "RFC 9112 §5", field(b"A:b"), Taken(fields=(("a", "b"),))),
    Case(
        "blanks and tabs around a value",
        "RFC 9112 §5",
        field(b"A: \t b \t"),
        Taken(fields=(("a", "b"),)),
    ),
    Case("an empty value", "RFC 9112 §5", field(b"A:"), Taken(fields=(("a", ""),))),
    Case(
        "a name in odd case",
        "RFC 9110 §5.1",
        b"HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh: 11\r\n" + REST,
        Taken(),
    ),
    Case("a blank before the colon", "RFC 9112 §5.1", field(b"A : b"), BROKEN),
    Case("a tab before the colon", "RFC 9112 §5.1", field(b"A\t: b"), BROKEN),
    Case(
        "a blank before the colon of Content-Length",
        "RFC 9112 §5.1",
        b"HTTP/1.1 200 OK\r\nContent-Length : 11\r\n" + REST,
        BROKEN,
    ),
    Case("a blank inside a name", "RFC 9112 §5.1", field(b"A b: c"), BROKEN),
    Case("no colon", "RFC 9112 §5", field(b"neither name nor value"), BROKEN),
    Case("an empty name", "RFC 9112 §5", field(b": b"), BROKEN),
    Case("NUL in a name", "RFC 9110 §5.1", field(b"A\0: b"), BROKEN),
    Case("a delimiter in a name", "RFC 9110 §5.1", field(b"A(b): c"), BROKEN),
    Case("an octet above 127 in a name", "RFC 9110 §5.1", field(b"gr\xfcn: a"), BROKEN),
    Case(
        "every character that a name may have",
        "RFC 9110 §5.1",
        field(b"!#$%&'*+-.^_`|~0aZ: b"),
        Taken(fields=(("!#$%&'*+-.^_`|~0az", "b"),)),
    ),
    Case("NUL in a value", "RFC 9110 §5.5", field(b"A: b\0c"), BROKEN),
    Case("CR alone in a value", "RFC 9110 §5.5", field(b"A: b\rc"), BROKEN),
    Case("CR alone before a name", "RFC 9110 §5.5", field(b"A: b\r\n\rB: c"), BROKEN),
    Case("another control character in a value", "RFC 9110 §5.5", field(b"A: b\x01c"), BROKEN),
    Case("DEL in a value", "RFC 9110 §5.5", field(b"A: b\x7fc"), BROKEN),
    Case(
        "octets above 127 in a value",
        "RFC 9110 §5.5",
        field(b"A: gr\xfcn"),
        Taken(fields=(("a", "gr\xfcn"),)),
    ),
    Case("a folded value", "RFC 9112 §5.2", field(b"A: b", b" c"), Taken(fields=(("a", "b c"),))),
    Case(
        "a value folded by a tab, twice",
        "RFC 9112 §5.2",
        field(b"A: b", b"\tc", b" \t d"),
        Taken(fields=(("a", "b c d"),)),
    ),
    Case(
        "a value that begins behind a fold",
        "RFC 9112 §5.2",
        field(b"A:", b" b"),
        Taken(fields=(("a", "b"),)),
    ),
    Case(
        "a fold that looks like a field",
        "RFC 9112 §5.2",
        field(b"A: b", b" Content-Length: 5"),
        Taken(fields=(("a", "b Content-Length: 5"),)),
    ),
    Case(
        "a folded Content-Length",
        "RFC 9112 §5.2",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 11\r\n" + REST,
        Taken(),
    ),
    Case(
        "a Content-Length that a fold cuts in two",
        "RFC 9112 §5.2",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 1\r\n" + REST,
        BROKEN,
    ),
    Case(
        "a folded Connection",
        "RFC 9112 §5.2",
        field(b"Connection: a,", b" close"),
        Taken(kept=False),
    ),
    Case("a blank before the first field", "RFC 9112 §2.2", field(b" A: b"), BROKEN),
    Case("256 fields", "RFC 9112 §5", field(*[b"A: b"] * 255), Taken()),
    Case("257 fields", "RFC 9110 §5.4", field(*[b"A: b"] * 256), BEYOND),
    Case("a head of 64 KiB", "RFC 9110 §5.4", sized(LIMIT), Taken()),
    Case("a head of 64 KiB and a byte", "RFC 9110 §5.4", sized(LIMIT + 1), BEYOND),
    Case(
        "a field line that does not end",
        "RFC 9110 §5.4",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * LIMIT,
        BEYOND,
    ),
    Case(
        "a field twice",
        "RFC 9110 §5.3",
        field(b"A: b", b"A: c"),
        Taken(fields=(("a", "b"), ("a", "c"))),
    ),
    Case("Connection: close", "RFC 9112 §9.6", field(b"Connection: close"), Taken(kept=False)),
    Case(
        "Connection: close in capitals",
        "RFC 9112 §9.6",
        field(b"CONNECTION: CLOSE"),
        Taken(kept=False),
    ),
    Case(
        "close among other options",
        "RFC 9112 §9.6",
        field(b"Connection: keep-alive, , close,"),
        Taken(kept=False),
    ),
    Case(
        "close in the second of two fields",
        "RFC 9112 §9.6",
        field(b"Connection: a", b"Connection: close"),
        Taken(kept=False),
    ),
    Case(
        "an option that only begins with close",
        "RFC 9112 §9.6",
        field(b"Connection: closed"),
        Taken(),
    ),
    Case("Proxy-Connection: close", "RFC 9112 §9.6", field(b"Proxy-Connection: close"), Taken()),
    Case(
        "version 1.0 with keep-alive",
        "RFC 9112 §9.3",
        line(b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive"),
        Taken(),
    ),
    Case(
        "version 1.0 with keep-alive and close",
        "RFC 9112 §9.3",
        line(b"HTTP/1.0 200 OK\r\nConnection: keep-alive, close"),
        Taken(kept=False),
    ),
    Case("a close that nothing announced", "RFC 9112 §9.5", FINAL, Taken(), End.CLOSE, requests=1),
    Case(
        "a reset behind a complete response", "RFC 9112 §9.5", FINAL, Taken(), End.RESET, requests=1
    ),
)

INFORMATIONAL = (
    Case(
        "100 that nobody waits for",
        "RFC 9110 §15.2",
        b"HTTP/1.1 100 Continue\r\n\r\n" + FINAL,
        Taken(informational=(100,)),
    ),
    Case("103 with fields", "RFC 9110 §15.2", HINTS + FINAL, Taken(informational=(103,))),
    Case(
        "three kinds of 1xx",
        "RFC 9110 §15.2",
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n", HINTS + FINAL),
        Taken(informational=(100, 102, 103)),
    ),
    Case(
        "a 1xx that nobody registered",
        "RFC 9110 §15.2",
        b"HTTP/1.1 199 Soon\r\n\r\n" + FINAL,
        Taken(informational=(199,)),
    ),
    Case("64 × 1xx", "RFC 9110 §15.2", HINTS * 64 + FINAL, Taken(informational=(103,) * 64)),
    Case("65 × 1xx", "RFC 9110 §15.2", HINTS * 65 + FINAL, BEYOND),
    Case(
        "1xx with a Content-Length and no content",
        "RFC 9112 §6.3",
        HINTS.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + FINAL,
        Taken(informational=(103,)),
    ),
    Case(
        "1xx with content",
        "RFC 9112 §6.3",
        HINTS.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello") + FINAL,
        BROKEN,
    ),
    Case(
        "1xx with Connection: close",
        "RFC 9112 §9.6",
        HINTS.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + FINAL,
        Taken(informational=(103,)),
    ),
    Case("1xx and a close", "RFC 9112 §8", HINTS, CLOSED, End.CLOSE),
    Case("1xx and silence", "RFC 9110 §15.2", HINTS, SILENT),
    Case(
        "101 that nobody asked for",
        "RFC 9110 §15.2.2",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        BROKEN,
    ),
)

CASES = STATUS_LINES + FIELD_LINES + INFORMATIONAL

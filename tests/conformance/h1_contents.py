"""Cases of HTTP/1.1: where the content of a response ends, and what comes behind it."""

from __future__ import annotations

from .cases import BEYOND, BROKEN, CLOSED, SHORT, SILENT, UNDECODED, Case, End, Taken
from .h1_heads import BODY, FINAL, LENGTH, LIMIT, REST

# Words of the RFCs that leave the choice to the recipient.
SAME = (
    "RFC 9110 §8.6: a recipient of a Content-Length header field value consisting of the same"
    " decimal value repeated as a comma-separated list MAY either reject the message as invalid or"
    " replace that invalid field value with a single instance of the decimal value"
)
BOTH = (
    "RFC 9112 §6.3: such a message might indicate an attempt to perform request smuggling or"
    " response splitting and ought to be handled as an error"
)
RECOVER = (
    "RFC 9110 §2.4: unless noted otherwise, a recipient MAY attempt to recover a usable protocol"
    " element from an invalid construct"
)
LAST = (
    "RFC 9112 §8: a message body that uses the chunked transfer coding is incomplete if the"
    " zero-sized chunk that terminates the encoding has not been received"
)
UNTIL_CLOSE = (
    "RFC 9112 §6.3: if a Transfer-Encoding header field is present in a response and the chunked"
    " transfer coding is not the final encoding, the message body length is determined by reading"
    " the connection until it is closed by the server (in a coding that was not asked for)"
)
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"b\r\nhello world\r\n0\r\n\r\n"
SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"
CLOSING = Taken(kept=False)


def length(*values: bytes) -> bytes:
    """A response of 11 bytes with these fields of Content-Length."""
    return OK + b"".join(b"Content-Length: " + each + b"\r\n" for each in values) + REST


def coded(*values: bytes, content: bytes = CHUNKS) -> bytes:
    """A response with these fields of Transfer-Encoding."""
    fields = b"".join(b"Transfer-Encoding: " + each + b"\r\n" for each in values)
    return OK + fields + b"\r\n" + content


def chunks(content: bytes) -> bytes:
    """A response in chunks."""
    return coded(b"chunked", content=content)


def trailers(*lines: bytes) -> bytes:
    """A response in chunks with these lines behind the last."""
    return chunks(CHUNKS[:-2] + b"".join(each + b"\r\n" for each in lines) + b"\r\n")


def surplus(name: str, section: str, answer: bytes, taken: Taken, *, method: str = "GET") -> Case:
    """Bytes come behind the response: the client takes it, and a load counts it as failed."""
    return Case(name, section, answer, BROKEN, method=method, client=taken)


LENGTHS = (
    Case("a length of 0", "RFC 9112 §6.2", OK + b"Content-Length: 0\r\n\r\n", Taken(b"")),
    Case(
        "leading zeros in a length", "RFC 9110 §8.6", length(b"00000000000000000000000011"), Taken()
    ),
    Case("the same length twice", "RFC 9112 §6.3", length(b"11", b"11"), Taken(), deviation=SAME),
    Case("the same length as a list", "RFC 9112 §6.3", length(b"11, 11"), Taken(), deviation=SAME),
    Case(
        "the same length, written in two ways",
        "RFC 9112 §6.3",
        length(b"11", b"011"),
        Taken(),
        deviation=SAME,
    ),
    Case("two lengths", "RFC 9112 §6.3", length(b"11", b"12"), BROKEN),
    Case("two lengths as a list", "RFC 9112 §6.3", length(b"11, 12"), BROKEN),
    Case("a length and an empty one", "RFC 9112 §6.3", length(b"11", b""), BROKEN),
    Case("a length and a comma", "RFC 9112 §6.3", length(b"11,"), BROKEN),
    Case("an empty length", "RFC 9112 §6.3", length(b""), BROKEN),
    Case("a negative length", "RFC 9112 §6.3", length(b"-11"), BROKEN),
    Case("a length with a plus sign", "RFC 9112 §6.3", length(b"+11"), BROKEN),
    Case("a hexadecimal length", "RFC 9112 §6.3", length(b"0xb"), BROKEN),
    Case("a length with a fraction", "RFC 9112 §6.3", length(b"11.0"), BROKEN),
    Case("a length with an exponent", "RFC 9112 §6.3", length(b"11e0"), BROKEN),
    Case("a length with an underscore", "RFC 9112 §6.3", length(b"1_1"), BROKEN),
    Case("a length with a blank inside", "RFC 9112 §6.3", length(b"1 1"), BROKEN),
    Case("a length in words", "RFC 9112 §6.3", length(b"eleven"), BROKEN),
    Case("a length with a semicolon", "RFC 9112 §6.3", length(b"11;"), BROKEN),
    Case("a length in digits of another script", "RFC 9112 §6.3", length("١١".encode()), BROKEN),
    Case("a length of 2^64", "RFC 9110 §8.6", length(b"18446744073709551616"), BROKEN),
    Case(
        "a length that is 11 modulo 2^64", "RFC 9110 §8.6", length(b"18446744073709551627"), BROKEN
    ),
    Case(
        "a length of 2^64 - 1 and a close",
        "RFC 9110 §8.6",
        length(b"18446744073709551615"),
        SHORT,
        End.CLOSE,
        # It puts no more together in memory than `max_content`, and asks for none of it.
        client=BEYOND,
        above=True,
    ),
    Case("too little content and a close", "RFC 9112 §8", length(b"12"), SHORT, End.CLOSE),
    Case("too little content and a reset", "RFC 9112 §8", length(b"12"), SHORT, End.RESET),
    Case("too little content and silence", "RFC 9112 §6.3", length(b"12"), SILENT),
    surplus("too much content", "RFC 9112 §6.3", length(b"5"), Taken(b"hello", kept=False)),
    Case("content up to the close", "RFC 9112 §6.3", OK + REST, CLOSING, End.CLOSE),
    Case(
        "no content up to the close",
        "RFC 9112 §6.3",
        OK + b"\r\n",
        Taken(b"", kept=False),
        End.CLOSE,
    ),
    Case("content up to a reset", "RFC 9112 §8", OK + REST, SHORT, End.RESET),
    Case(
        "content that looks like a response, up to the close",
        "RFC 9112 §6.3",
        OK + b"\r\n" + SMUGGLED,
        Taken(SMUGGLED, kept=False),
        End.CLOSE,
    ),
    Case(
        "content that is not in its content coding",
        "RFC 9110 §8.4",
        FINAL.replace(LENGTH, b"Content-Encoding: gzip\r\n" + LENGTH),
        Taken(),
        client=UNDECODED,
        above=True,
    ),
)

WITHOUT_CONTENT = (
    Case("204 without a length", "RFC 9112 §6.3", b"HTTP/1.1 204 None\r\n\r\n", Taken(b"", 204)),
    Case(
        "204 with a length",
        "RFC 9112 §6.3",
        b"HTTP/1.1 204 None\r\n" + LENGTH + b"\r\n",
        Taken(b"", 204),
    ),
    Case(
        "204 with Transfer-Encoding",
        "RFC 9112 §6.3",
        b"HTTP/1.1 204 None\r\n" + CHUNKED + b"\r\n",
        Taken(b"", 204),
    ),
    surplus(
        "204 with content",
        "RFC 9112 §6.3",
        b"HTTP/1.1 204 None\r\n" + LENGTH + REST,
        Taken(b"", 204, kept=False),
    ),
    surplus(
        "204 with chunks",
        "RFC 9112 §6.3",
        b"HTTP/1.1 204 None\r\n" + CHUNKED + b"\r\n" + CHUNKS,
        Taken(b"", 204, kept=False),
    ),
    Case(
        "205 with a length of 0",
        "RFC 9110 §15.3.6",
        b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n",
        Taken(b"", 205),
    ),
    Case(
        "304 with the length of what it stands for",
        "RFC 9112 §6.3",
        b"HTTP/1.1 304 Same\r\n" + LENGTH + b"\r\n",
        Taken(b"", 304),
    ),
    Case(
        "304 with Transfer-Encoding",
        "RFC 9112 §6.3",
        b"HTTP/1.1 304 Same\r\n" + CHUNKED + b"\r\n",
        Taken(b"", 304),
    ),
    surplus(
        "304 with content",
        "RFC 9112 §6.3",
        b"HTTP/1.1 304 Same\r\n" + LENGTH + REST,
        Taken(b"", 304, kept=False),
    ),
    Case("HEAD and a length", "RFC 9112 §6.3", OK + LENGTH + b"\r\n", Taken(b""), method="HEAD"),
    Case("HEAD and no length", "RFC 9112 §6.3", OK + b"\r\n", Taken(b""), method="HEAD"),
    Case(
        "HEAD and Transfer-Encoding",
        "RFC 9112 §6.3",
        OK + CHUNKED + b"\r\n",
        Taken(b""),
        method="HEAD",
    ),
    surplus("HEAD and content", "RFC 9112 §6.3", FINAL, Taken(b"", kept=False), method="HEAD"),
    surplus(
        "HEAD and chunks",
        "RFC 9112 §6.3",
        OK + CHUNKED + b"\r\n" + CHUNKS,
        Taken(b"", kept=False),
        method="HEAD",
    ),
    Case(
        "HEAD and two lengths",
        "RFC 9112 §6.3",
        OK + LENGTH + b"Content-Length: 12\r\n\r\n",
        BROKEN,
        method="HEAD",
    ),
    Case(
        "HEAD and a close before the empty line",
        "RFC 9112 §8",
        OK + LENGTH,
        CLOSED,
        End.CLOSE,
        "HEAD",
    ),
)

CODINGS = (
    Case("chunked in odd case", "RFC 9112 §7", coded(b"cHuNkEd"), Taken()),
    Case("chunked among empty elements", "RFC 9110 §5.6.1.2", coded(b", chunked ,,"), Taken()),
    Case("chunked twice in a list", "RFC 9112 §6.1", coded(b"chunked, chunked"), BROKEN),
    Case("chunked in two fields", "RFC 9112 §6.1", coded(b"chunked", b"chunked"), BROKEN),
    Case("gzip before chunked", "RFC 9112 §7.4", coded(b"gzip, chunked"), BROKEN),
    Case(
        "gzip behind chunked",
        "RFC 9112 §6.3",
        coded(b"chunked, gzip"),
        BROKEN,
        deviation=UNTIL_CLOSE,
    ),
    Case("gzip alone", "RFC 9112 §7.4", coded(b"gzip"), BROKEN, End.CLOSE, deviation=UNTIL_CLOSE),
    Case(
        "identity",
        "RFC 9112 §7.4",
        coded(b"identity", content=BODY),
        BROKEN,
        End.CLOSE,
        deviation=UNTIL_CLOSE,
    ),
    Case("identity before chunked", "RFC 9112 §7.4", coded(b"identity, chunked"), BROKEN),
    Case("an unknown coding", "RFC 9112 §7.4", coded(b"xchunked"), BROKEN, deviation=UNTIL_CLOSE),
    Case("an empty Transfer-Encoding", "RFC 9112 §6.1", coded(b""), BROKEN, deviation=UNTIL_CLOSE),
    Case("chunked with a parameter", "RFC 9112 §7.1", coded(b"chunked;q=1"), BROKEN),
    Case("chunked in quotes", "RFC 9112 §7", coded(b'"chunked"'), BROKEN),
    Case("chunked behind a vertical tab", "RFC 9110 §5.5", coded(b"\x0bchunked"), BROKEN),
    Case(
        "chunked with a length before it",
        "RFC 9112 §6.3",
        OK + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
        BROKEN,
        deviation=BOTH,
    ),
    Case(
        "chunked with a length behind it",
        "RFC 9112 §6.3",
        OK + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
        BROKEN,
        deviation=BOTH,
    ),
    Case(
        "an unknown coding and a length",
        "RFC 9112 §6.3",
        OK + b"Transfer-Encoding: zip\r\n" + LENGTH + REST,
        BROKEN,
        deviation=BOTH,
    ),
    Case(
        "chunked in version 1.0", "RFC 9112 §6.1", coded(b"chunked").replace(b"1.1", b"1.0"), BROKEN
    ),
    Case(
        "chunked and a length in version 1.0",
        "RFC 9112 §6.1",
        (OK + CHUNKED + LENGTH + REST).replace(b"1.1", b"1.0"),
        BROKEN,
    ),
    Case("chunked behind a fold", "RFC 9112 §5.2", coded(b"\r\n chunked"), Taken()),
    Case("chunked that a fold cuts in two", "RFC 9112 §5.2", coded(b"chun\r\n ked"), BROKEN),
    Case(
        "a blank before the colon of Transfer-Encoding",
        "RFC 9112 §5.1",
        coded(b"chunked").replace(b":", b" :", 1),
        BROKEN,
    ),
    Case(
        "chunked with a length that is none",
        "RFC 9112 §6.3",
        OK + CHUNKED + b"Content-Length: x\r\n\r\n" + CHUNKS,
        BROKEN,
    ),
)

CHUNKED_CONTENT = (
    Case("one chunk", "RFC 9112 §7.1", chunks(CHUNKS), Taken()),
    Case(
        "three chunks",
        "RFC 9112 §7.1",
        (chunks(b"5\r\nhel"), b"lo\r\n1\r\n \r", b"\n5\r\nworld\r\n0\r\n\r\n"),
        Taken(),
    ),
    Case("no content in chunks", "RFC 9112 §7.1", chunks(b"0\r\n\r\n"), Taken(b"")),
    Case(
        "a chunk size in capitals with zeros before it",
        "RFC 9112 §7.1",
        chunks(b"00000000000000000000B" + CHUNKS[1:]),
        Taken(),
    ),
    Case(
        "a last chunk of many zeros",
        "RFC 9112 §7.1",
        chunks(CHUNKS.replace(b"0\r\n", b"0000000000000000000\r\n")),
        Taken(),
    ),
    Case(
        "a blank behind a chunk size",
        "RFC 9112 §7.1",
        chunks(b"b " + CHUNKS[1:]),
        Taken(),
        deviation=RECOVER,
    ),
    Case(
        "a chunk size of 17 digits",
        "RFC 9112 §7.1",
        chunks(b"1000000000000000b" + CHUNKS[1:]),
        BROKEN,
    ),
    Case(
        "a chunk size of 2^64 - 1 and a close",
        "RFC 9112 §7.1",
        chunks(b"ffffffffffffffff" + CHUNKS[1:]),
        SHORT,
        End.CLOSE,
    ),
    Case("a chunk size with 0x", "RFC 9112 §7.1", chunks(b"0x" + CHUNKS), BROKEN),
    Case("a chunk size with a plus sign", "RFC 9112 §7.1", chunks(b"+" + CHUNKS), BROKEN),
    Case("a negative chunk size", "RFC 9112 §7.1", chunks(b"-" + CHUNKS), BROKEN),
    Case("a blank before a chunk size", "RFC 9112 §7.1", chunks(b" " + CHUNKS), BROKEN),
    Case("a chunk size with an underscore", "RFC 9112 §7.1", chunks(b"0_" + CHUNKS), BROKEN),
    Case("a chunk size that is no number", "RFC 9112 §7.1", chunks(b"eleven" + CHUNKS[1:]), BROKEN),
    Case("no chunk size", "RFC 9112 §7.1", chunks(CHUNKS[1:]), BROKEN),
    Case(
        "a chunk size that ends with LF alone",
        "RFC 9112 §7.1",
        chunks(CHUNKS.replace(b"b\r\n", b"b\n")),
        BROKEN,
    ),
    Case(
        "a chunk size that ends with CR alone",
        "RFC 9112 §7.1",
        chunks(CHUNKS.replace(b"b\r\n", b"b\r")),
        BROKEN,
    ),
    Case(
        "a chunk that ends with LF alone",
        "RFC 9112 §7.1",
        chunks(CHUNKS.replace(b"d\r\n", b"d\n")),
        BROKEN,
    ),
    Case(
        "a chunk that ends without CRLF",
        "RFC 9112 §7.1",
        chunks(CHUNKS.replace(b"d\r\n", b"d")),
        BROKEN,
    ),
    Case("a chunk longer than its size", "RFC 9112 §7.1", chunks(b"a" + CHUNKS[1:]), BROKEN),
    Case("a chunk shorter than its size", "RFC 9112 §7.1", chunks(b"c" + CHUNKS[1:]), BROKEN),
    Case("an extension", "RFC 9112 §7.1.1", chunks(b"b;a" + CHUNKS[1:]), Taken()),
    Case(
        "extensions with values",
        "RFC 9112 §7.1.1",
        chunks(b'b ; a = b ;c="d;\\"e"' + CHUNKS[1:]),
        Taken(),
    ),
    Case(
        "an extension of the last chunk",
        "RFC 9112 §7.1.1",
        chunks(CHUNKS.replace(b"0\r\n", b"0;a=b\r\n")),
        Taken(),
    ),
    Case(
        "an extension without a name",
        "RFC 9112 §7.1.1",
        chunks(b"b;" + CHUNKS[1:]),
        Taken(),
        deviation=RECOVER,
    ),
    Case(
        "an extension of 64 KiB",
        "RFC 9112 §7.1.1",
        chunks(b"b;" + b"a" * LIMIT + CHUNKS[1:]),
        BEYOND,
    ),
    Case("NUL in an extension", "RFC 9112 §7.1.1", chunks(b"b;a\0" + CHUNKS[1:]), BROKEN),
    Case("LF in an extension", "RFC 9112 §7.1.1", chunks(b"b;a\nb" + CHUNKS[1:]), BROKEN),
    Case("CR in an extension", "RFC 9112 §7.1.1", chunks(b"b;a\rb" + CHUNKS[1:]), BROKEN),
    Case(
        "an extension without a semicolon", "RFC 9112 §7.1.1", chunks(b"b a" + CHUNKS[1:]), BROKEN
    ),
    Case("a close inside a chunk", "RFC 9112 §8", chunks(CHUNKS[:8]), SHORT, End.CLOSE),
    Case("a close between chunks", "RFC 9112 §8", chunks(CHUNKS[:-5]), SHORT, End.CLOSE),
    Case("a close inside the last chunk", "RFC 9112 §8", chunks(CHUNKS[:-3]), SHORT, End.CLOSE),
    Case(
        "a close behind the last chunk",
        "RFC 9112 §8",
        chunks(CHUNKS[:-2]),
        CLOSING,
        End.CLOSE,
        deviation=LAST,
    ),
    Case("a reset behind the last chunk", "RFC 9112 §8", chunks(CHUNKS[:-2]), SHORT, End.RESET),
    Case(
        "a close inside the trailers",
        "RFC 9112 §8",
        chunks(CHUNKS[:-2] + b"A: b\r\n"),
        SHORT,
        End.CLOSE,
    ),
    Case("silence behind the last chunk", "RFC 9112 §7.1", chunks(CHUNKS[:-2]), SILENT),
    Case("a trailer", "RFC 9112 §7.1.2", trailers(b"A: b"), Taken(trailers=(("a", "b"),))),
    Case(
        "two trailers",
        "RFC 9112 §7.1.2",
        trailers(b"A: b", b"C:d"),
        Taken(trailers=(("a", "b"), ("c", "d"))),
    ),
    Case(
        "Content-Length as a trailer",
        "RFC 9110 §6.5.1",
        trailers(LENGTH[:-2]),
        Taken(trailers=(("content-length", "11"),)),
    ),
    Case(
        "Transfer-Encoding as a trailer",
        "RFC 9110 §6.5.1",
        trailers(CHUNKED[:-2]),
        Taken(trailers=(("transfer-encoding", "chunked"),)),
    ),
    Case(
        "Connection: close as a trailer",
        "RFC 9110 §6.5.1",
        trailers(b"Connection: close"),
        Taken(trailers=(("connection", "close"),)),
    ),
    Case(
        "a trailer without a colon", "RFC 9112 §7.1.2", trailers(b"neither name nor value"), BROKEN
    ),
    Case("a blank before a trailer's colon", "RFC 9112 §5.1", trailers(b"A : b"), BROKEN),
    Case("NUL in a trailer", "RFC 9110 §5.5", trailers(b"A: b\0"), BROKEN),
    Case("a trailer that ends with LF alone", "RFC 9112 §7.1.2", trailers(b"A: b\nC: d"), BROKEN),
    Case(
        "a folded trailer",
        "RFC 9112 §5.2",
        trailers(b"A: b", b" c"),
        Taken(trailers=(("a", "b c"),)),
    ),
    Case("a blank before the first trailer", "RFC 9112 §5", trailers(b" A: b"), BROKEN),
    Case("257 trailers", "RFC 9110 §5.4", trailers(*[b"A: b"] * 257), BEYOND),
    Case("a trailer of 64 KiB", "RFC 9110 §5.4", trailers(b"A: " + b"a" * LIMIT), BEYOND),
)

BEHIND = (
    surplus("a second response behind a length", "RFC 9112 §9.2", FINAL + SMUGGLED, CLOSING),
    surplus("a second response behind chunks", "RFC 9112 §9.2", chunks(CHUNKS) + SMUGGLED, CLOSING),
    surplus(
        "a second response behind trailers",
        "RFC 9112 §9.2",
        trailers(b"A: b") + SMUGGLED,
        Taken(trailers=(("a", "b"),), kept=False),
    ),
    surplus(
        "a second response behind 204",
        "RFC 9112 §9.2",
        b"HTTP/1.1 204 None\r\n\r\n" + SMUGGLED,
        Taken(b"", 204, kept=False),
    ),
    surplus(
        "a second response behind 304",
        "RFC 9112 §9.2",
        b"HTTP/1.1 304 Same\r\n" + LENGTH + b"\r\n" + SMUGGLED,
        Taken(b"", 304, kept=False),
    ),
    surplus(
        "a second response behind HEAD",
        "RFC 9112 §9.2",
        OK + b"Content-Length: 0\r\n\r\n" + SMUGGLED,
        Taken(b"", kept=False),
        method="HEAD",
    ),
    surplus(
        "a second response behind Connection: close",
        "RFC 9112 §9.6",
        FINAL.replace(LENGTH, b"Connection: close\r\n" + LENGTH) + SMUGGLED,
        CLOSING,
    ),
    surplus(
        "1xx behind a response",
        "RFC 9112 §9.2",
        FINAL + b"HTTP/1.1 103 Early Hints\r\n\r\n",
        CLOSING,
    ),
    surplus("an empty line behind a response", "RFC 9112 §9.2", FINAL + b"\r\n", CLOSING),
    surplus("NUL behind a response", "RFC 9112 §9.2", FINAL + b"\0", CLOSING),
)

CASES = LENGTHS + WITHOUT_CONTENT + CODINGS + CHUNKED_CONTENT + BEHIND

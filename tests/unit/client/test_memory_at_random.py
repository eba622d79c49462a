"""A connection in memory under anything a peer says and a caller does: our errors alone come of it.

A panic of the native part would end the process, and be seen as that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from peers.h2_chaos import frame
from trilane import _core
from trilane.client import errors

WATCHED = [_core.HEAD, _core.DATA, _core.END, _core.WRITABLE, _core.INFORMATIONAL]
METHODS = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "CONNECT",
    "get",
    "M-SEARCH",
    "",
    "G T",
]
TARGETS = ["/", "/a?b=c", "*", "http://other.example/", "", " ", "/\x00", "/é", "a"]
FIELDS: list[tuple[str | bytes, str | bytes]] = [
    ("accept", "*/*"),
    ("Host", "other.example"),
    ("content-length", "5"),
    ("content-length", "x"),
    ("transfer-encoding", "chunked"),
    ("connection", "close"),
    ("expect", "100-continue"),
    ("te", "trailers"),
    ("x", "y" * 5000),
    (b"x-bytes", b"\xff\xfe"),
    ("", ""),
    ("a b", "c"),
    ("x", "a\r\nb: c"),
    (":path", "/"),
]
SPOKEN_1 = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n",
    b"X: y\r\n",
    b"\r",
    b"\n",
    b"\x00",
    b"x" * 70_000,
]
HEADS = [
    b"\x88",
    b"\x48\x03103",
    b"\x48\x03100",
    b"\x8b",
    b"\x88\x0f\x0d\x015",
    b"\x88\x0f\x0d\x02-1",
    b"\x0f\x0d\x015",
    b"\x40\x01a\x01b",
    b"\x3f\xe1\x1f\x88",
    b"\xbe",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x40\x7f",
    b"",
]


NUMBERS = st.sampled_from([0, 1, 7, 8, 0x7FFF_FFFF, 0xFFFF_FFFF]) | st.integers(0, 0xFFFF_FFFF)
STREAMS = st.sampled_from([0, 1, 2, 3, 5, 7, 9, 11])
FLAGS = st.sampled_from([0, 1, 4, 5, 8, 0x20, 0x2D, 255])
which = st.integers(0, 99)


@st.composite
def spoken_2(draw: st.DrawFn) -> bytes:
    """A frame of HTTP/2 that may be right."""
    kind = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]))
    stream = draw(STREAMS)
    number = draw(NUMBERS)
    if kind in (1, 9):
        payload = b"".join(draw(st.lists(st.sampled_from(HEADS), min_size=1, max_size=2)))
    elif kind == 0:
        payload = bytes(draw(st.sampled_from([0, 1, 5, 255, 5000])))
    elif kind == 4:
        stream = draw(st.sampled_from([0, 0, 0, stream]))
        settings = draw(st.lists(st.tuples(st.integers(0, 7), NUMBERS), max_size=2))
        payload = b"".join(struct.pack(">HI", *setting) for setting in settings)
    elif kind == 7:
        stream = draw(st.sampled_from([0, 0, 0, stream]))
        payload = struct.pack(">II", draw(STREAMS), number)
    else:
        payload = struct.pack(">I", number) * draw(st.integers(0, 2))
    data = bytearray(frame(kind, draw(FLAGS), stream, payload))
    for at, byte in draw(st.lists(st.tuples(which, st.integers(0, 255)), max_size=1)):
        data[at % len(data)] = byte
    return bytes(data)


def ours(call: Callable[[], object]) -> None:
    """What fails, fails in our own words."""
    told = "nothing failed"
    try:
        call()
    except errors.Error as error:
        told = str(error)
    assert told


class Life(RuleBasedStateMachine):
    """One connection, its peer and its caller."""

    def __init__(self) -> None:
        super().__init__()
        self.version = "h1"
        self.connection = _core.Connection.memory("h1")
        self.exchanges: list[_core.Exchange] = []

    @initialize(version=st.sampled_from(["h1", "h2"]), settled=st.booleans())
    def begin(self, version: str, settled: bool) -> None:
        self.version = version
        self.connection = _core.Connection.memory(version)
        if version == "h2" and settled:
            self.connection.receive(frame(4, 0, 0))

    def hear(self, data: bytes, cut: int) -> None:
        at = cut % (len(data) + 1)
        ours(lambda: self.connection.receive(data[:at]))
        ours(lambda: self.connection.receive(data[at:]))

    @precondition(lambda self: self.version == "h1")
    @rule(
        # Some are too long to be shown.
        spoken=st.lists(st.integers(0, len(SPOKEN_1) - 1), min_size=1, max_size=5),
        cut=st.just(0) | st.integers(0, 70_000),
    )
    def hear_1(self, spoken: list[int], cut: int) -> None:
        self.hear(b"".join(SPOKEN_1[number] for number in spoken), cut)

    @precondition(lambda self: self.version == "h2")
    @rule(data=spoken_2(), cut=st.just(0) | st.integers(0, 20_000))
    def hear_2(self, data: bytes, cut: int) -> None:
        self.hear(data, cut)

    @rule(
        method=st.sampled_from(METHODS),
        path=st.sampled_from(TARGETS),
        fields=st.lists(st.sampled_from(FIELDS), max_size=2),
        size=st.none() | st.integers(0, 100_000),
        flush=st.sampled_from([None, True, False]),
    )
    def submit(
        self,
        method: str,
        path: str,
        fields: list[tuple[str | bytes, str | bytes]],
        size: int | None,
        flush: bool | None,
    ) -> None:
        content = None if size is None else bytes(size)

        def submit() -> None:
            made = self.connection.submit(method, path, fields, content, flush=flush)
            self.exchanges.append(made)

        ours(submit)

    @rule(
        length=st.sampled_from([None, 0, 5, 1 << 40]),
        fields=st.lists(st.sampled_from(FIELDS[:3]), max_size=2),
    )
    def begin_upload(
        self, length: int | None, fields: list[tuple[str | bytes, str | bytes]]
    ) -> None:
        def submit() -> None:
            made = self.connection.submit("POST", "/", fields, streaming=True, length=length)
            self.exchanges.append(made)

        ours(submit)

    @precondition(lambda self: self.exchanges)
    @rule(
        number=which,
        amount=st.sampled_from([-1, 0, 1, 5, 100_000]),
        written=st.sampled_from([0, 1, 5, 300_000]),
        trailers=st.sampled_from([[], [("x", "y")], [("host", "y")]]),
        watched=st.sampled_from(WATCHED),
        choice=st.integers(0, 13),
    )
    def use(
        self,
        number: int,
        amount: int,
        written: int,
        trailers: list[tuple[str | bytes, str | bytes]],
        watched: int,
        choice: int,
    ) -> None:
        exchange = self.exchanges[number % len(self.exchanges)]
        calls: list[Callable[[], object]] = [
            lambda: exchange.head(0),
            exchange.fields,
            lambda: exchange.read(amount, 0),
            lambda: exchange.read1(amount, 0),
            lambda: exchange.readinto(bytearray(max(amount, 0)), 0),
            lambda: exchange.wait_informational(0),
            lambda: exchange.write(bytes(written), 0),
            lambda: exchange.finish(trailers, 0),
            lambda: exchange.watch(watched),
            exchange.cancel,
            exchange.trailers,
            lambda: self.exchanges.remove(exchange),
            lambda: (exchange.complete, exchange.unread, exchange.upload_open, exchange.reason),
            lambda: (exchange.content_length, exchange.informational, exchange.version),
        ]
        ours(calls[choice])

    @rule(choice=st.integers(0, 6))
    def look(self, choice: int) -> None:
        connection = self.connection
        calls: list[Callable[[], object]] = [
            connection.output,
            connection.drive,
            connection.flush,
            connection.settings,
            connection.is_alive,
            lambda: (connection.capacity, connection.outstanding, connection.is_closing),
            lambda: (connection.wants_write, connection.timeout, repr(connection)),
        ]
        ours(calls[choice])

    @rule(number=which, closes=st.booleans())
    def end(self, number: int, closes: bool) -> None:
        # Seldom: not much is left to be tried afterwards.
        if number % 10 == 0:
            ours(self.connection.close if closes else self.connection.eof)


TestLife = Life.TestCase

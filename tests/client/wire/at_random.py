"""A program that plays at random on connections in memory, and has to end with our errors alone.

`python -m client.wire.at_random SEED COUNT` plays COUNT games. A panic of the native part would end
the process; any exception but those of `trilane.client.errors` ends the program.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable

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


def spoken_2(chance: random.Random, streams: int) -> bytes:
    """Frames of HTTP/2 that may be right."""
    stream = chance.choice([0, 2, *(2 * index + 1 for index in range(streams + 1))])
    kind = chance.choice([0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 255])
    flags = chance.choice([0, 1, 4, 5, 5, 5, 8, 0x20, 0x2D, 255])
    number = chance.choice([0, 1, 7, 8, 0x7FFF_FFFF, 0xFFFF_FFFF, chance.randrange(1 << 32)])
    if kind in (1, 9):
        payload = b"".join(chance.choices(HEADS, k=chance.randrange(1, 3)))
    elif kind == 0:
        payload = bytes(chance.choice([0, 1, 5, 255, 16384]))
    elif kind == 4:
        stream = chance.choice([0, 0, 0, stream])
        settings = [(chance.randrange(8), number) for _ in range(chance.randrange(3))]
        payload = b"".join(struct.pack(">HI", *setting) for setting in settings)
    elif kind == 7:
        stream = chance.choice([0, 0, 0, stream])
        payload = struct.pack(">II", chance.choice([0, 1, 3, number]) & 0xFFFF_FFFF, number)
    else:
        payload = struct.pack(">I", number) * chance.choice([0, 1, 1, 1, 2])
    data = frame(kind, flags, stream, payload)
    if chance.random() < 0.05:
        data = bytes(byte ^ (chance.random() < 0.02) * chance.randrange(256) for byte in data)
    return data


class Game:
    """One connection, and what is played with it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.version = self.chance.choice(["h1", "h2"])
        self.connection = _core.Connection.memory(self.version)
        self.exchanges: list[_core.Exchange] = []
        self.told = 0
        if self.version == "h2" and self.chance.random() < 0.9:
            self.connection.receive(frame(4, 0, 0))

    def hear(self) -> None:
        """The peer says something."""
        if self.version == "h1":
            data = b"".join(self.chance.choices(SPOKEN_1, k=self.chance.randrange(1, 6)))
        else:
            data = spoken_2(self.chance, len(self.exchanges))
        cut = self.chance.randrange(len(data) + 1) if self.chance.random() < 0.2 else len(data)
        self.connection.receive(data[:cut])
        self.connection.receive(data[cut:])

    def submit(self) -> None:
        chance = self.chance
        streaming = chance.random() < 0.4
        fields = chance.choices(FIELDS[: chance.choice([3, 14])], k=chance.randrange(3))
        self.exchanges.append(
            self.connection.submit(
                chance.choice(METHODS[: chance.choice([3, 11])]),
                chance.choice(TARGETS[: chance.choice([2, 9])]),
                fields,
                None if streaming or chance.random() < 0.7 else bytes(chance.randrange(100_000)),
                streaming=streaming,
                length=chance.choice([None, None, 0, 5, 1 << 40]) if streaming else None,
                flush=chance.choice([None, True, False]),
            )
        )

    def use(self) -> None:
        """Anything that can be done with an exchange."""
        chance = self.chance
        if not self.exchanges:
            return
        exchange = chance.choice(self.exchanges)
        amount = chance.choice([-1, 0, 1, 5, 100_000])
        calls: list[Callable[[], object]] = [
            lambda: exchange.head(0),
            exchange.fields,
            lambda: exchange.read(amount, 0),
            lambda: exchange.read1(amount, 0),
            lambda: exchange.readinto(bytearray(max(amount, 0)), 0),
            lambda: exchange.wait_informational(0),
            lambda: exchange.write(bytes(chance.choice([0, 1, 5, 300_000])), 0),
            lambda: exchange.finish(chance.choice([(), [("x", "y")], [("host", "y")]]), 0),
            lambda: exchange.watch(chance.choice(WATCHED)),
            exchange.cancel,
            exchange.trailers,
            lambda: self.exchanges.remove(exchange),
            lambda: (exchange.complete, exchange.unread, exchange.upload_open, exchange.reason),
            lambda: (exchange.content_length, exchange.informational, exchange.version),
        ]
        chance.choice(calls)()

    def look(self) -> None:
        """Anything that can be done with a connection."""
        connection = self.connection
        calls: list[Callable[[], object]] = [
            connection.output,
            connection.output,
            connection.drive,
            connection.flush,
            connection.settings,
            connection.is_alive,
            lambda: (connection.capacity, connection.outstanding, connection.is_closing),
            lambda: (connection.wants_write, connection.timeout, repr(connection)),
        ]
        if self.chance.random() < 0.02:
            calls = [connection.close, connection.eof]
        self.chance.choice(calls)()

    def play(self) -> None:
        """Some moves; each may fail in our own words."""
        moves = [self.hear, self.hear, self.submit, self.use, self.use, self.look]
        for _ in range(self.chance.randrange(5, 80)):
            try:
                self.chance.choice(moves)()
            except errors.Error as error:
                self.told += bool(str(error))


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        try:
            Game(seed).play()
        except BaseException:
            print("seed", seed, file=sys.stderr)
            raise

"""gRPC servers that misbehave on purpose, over cleartext HTTP/2; every case is valid HTTP/2.

Sources: "gRPC over HTTP2" (PROTOCOL-HTTP2.md) and "HTTP to gRPC Status Code Mapping"
(http-grpc-status-mapping.md) of the gRPC project.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events
import hpack

from . import h2_chaos
from .chaos import Script
from .h2_chaos import DATA, GOAWAY, HEADERS, RST_STREAM, frame

_END_STREAM, _END_HEADERS = 1, 4
_NO_ERROR, _INTERNAL_ERROR, _CANCEL = 0, 2, 8
Fields = list[tuple[str, str]]
GRPC: Fields = [(":status", "200"), ("content-type", "application/grpc")]
# A Book with nothing but `title` ("x"): a message of any size would do.
BOOK = b"\x1a\x01x"


def headers(stream: int, fields: Fields, *, end: bool = False) -> bytes:
    """A HEADERS frame; an encoder of its own each time, with no dynamic table to keep in step."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    block = encoder.encode(fields, huffman=False)
    return frame(HEADERS, _END_HEADERS | (_END_STREAM if end else 0), stream, block)


def message(payload: bytes = BOOK, *, flag: int = 0, length: int | None = None) -> bytes:
    """A length-prefixed message whose prefix may lie."""
    size = len(payload) if length is None else length
    return struct.pack(">BI", flag, size) + payload


@dataclass(frozen=True)
class Answer:
    """A head, content and trailers; without content and trailers the head ends the stream."""

    content: bytes = b""
    trailers: Fields | None = None
    head: Fields | None = None
    piece: int | None = None
    """Bytes of content in a DATA frame; all of them where it is left out."""

    @property
    def pieces(self) -> list[bytes]:
        """The content of each DATA frame."""
        size = self.piece or max(len(self.content), 1)
        return [self.content[at : at + size] for at in range(0, len(self.content), size)]

    @property
    def script(self) -> Script:
        """What answers every call so over HTTP/2."""

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            left = len(self.pieces) + (self.trailers is not None)
            writer.write(headers(stream, self.head or GRPC, end=left == 0))
            for piece in self.pieces:
                left -= 1
                writer.write(frame(DATA, 0 if left else _END_STREAM, stream, piece))
            if self.trailers is not None:
                writer.write(headers(stream, self.trailers, end=True))

        return h2_chaos.server(on_request)


def frames(*make: Callable[[int], bytes]) -> Script:
    """A script that answers every call with the frames that the functions make of its stream."""
    return h2_chaos.server(h2_chaos.replies(*make))


class _Endless:
    """One connection on which every stream gets messages for ever."""

    def __init__(self, payload: bytes) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.h2.initiate_connection()
        self._one = message(payload)
        self._streams: set[int] = set()

    def fill(self) -> None:
        """As many messages as the client's windows let through."""
        for stream in self._streams:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if count := room // len(self._one):
                self.h2.send_data(stream, self._one * count)

    def hear(self, data: bytes) -> None:
        """Take what the client sent."""
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self.h2.send_headers(event.stream_id, GRPC)
                self._streams.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self._streams.discard(event.stream_id)


def endless(payload: bytes) -> Script:
    """Messages for ever on every stream, as fast as the client's windows let them."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Endless(payload)
        while True:
            connection.fill()
            writer.write(connection.h2.data_to_send())
            await writer.drain()
            try:
                data = await asyncio.wait_for(reader.read(65536), 0.01)
            except TimeoutError:
                continue
            if not data:
                return
            connection.hear(data)

    return script


@dataclass(frozen=True)
class Case:
    """A misbehaviour: its script, the error kinds that may name it, and words of the example.

    `answer` is none where it takes more than an answer to misbehave so.
    """

    script: Script
    answer: Answer | None
    kinds: frozenset[str]
    words: tuple[str, ...] = ()


def case(what: Script | Answer, kinds: str, *words: str) -> Case:
    """A case; the kinds are separated by spaces."""
    answer = what if isinstance(what, Answer) else None
    script = what.script if isinstance(what, Answer) else what
    return Case(script, answer, frozenset(kinds.split()), words)


_OK: Fields = [("grpc-status", "0")]


def _after_message(*last: Callable[[int], bytes]) -> Script:
    """A message, whole, then these frames instead of trailers."""
    return frames(
        lambda stream: headers(stream, GRPC),
        lambda stream: frame(DATA, 0, stream, message()),
        *last,
    )


# Unusual in all that it may be, and right.
ODD = Answer(
    message(),
    [("x-more", "1"), *_OK, ("grpc-message", "all is well"), ("x-blob-bin", "AAE=")],
    [(":status", "200"), ("content-type", "application/grpc+proto")],
    piece=1,
)

BAD: dict[str, Case] = {
    "status 5 after a message": case(
        Answer(message(), [("grpc-status", "5"), ("grpc-message", "no such book")]),
        "status",
        "NOT_FOUND",
        "no such book",
    ),
    "no trailers": case(Answer(message()), "protocol status", "grpc-status"),
    "nothing but a head": case(Answer(), "protocol status", "grpc-status"),
    "message longer than the content": case(
        Answer(message(length=400), _OK), "body", "within a message"
    ),
    "message of control characters": case(
        Answer(
            message(), [("grpc-status", "3"), ("grpc-message", "%1B%5B2J%00%0Aevil%0D%08 %zz %F0")]
        ),
        "status",
        "INVALID_ARGUMENT",
        "evil",
    ),
    "message of 10,000 characters": case(
        Answer(message(), [("grpc-status", "3"), ("grpc-message", "long-" * 2000)]),
        "status limit",
    ),
    "reset after a message": case(
        _after_message(
            lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", _INTERNAL_ERROR))
        ),
        "reset",
    ),
    "cancelled after a message": case(
        _after_message(lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", _CANCEL))),
        "reset",
    ),
    "NO_ERROR reset without trailers": case(
        _after_message(lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", _NO_ERROR))),
        "reset protocol",
    ),
    "silent after a message": case(_after_message(), "timeout"),
    "endless messages": case(endless(BOOK * 200), "timeout limit protocol body"),
    "endless messages of nothing": case(endless(b""), "timeout limit protocol body"),
}


def goaway_mid_call() -> Script:
    """The third call of a connection is announced as processed and never ends."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            if served < 3:
                writer.write(headers(stream, GRPC) + frame(DATA, 0, stream, message()))
                writer.write(headers(stream, _OK, end=True))
            elif served == 3:
                writer.write(headers(stream, GRPC) + frame(DATA, 0, stream, message()))
                writer.write(frame(GOAWAY, 0, 0, struct.pack(">II", stream, _INTERNAL_ERROR)))
                writer.close()

        await h2_chaos.server(on_request)(reader, writer)

    return script

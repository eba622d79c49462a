"""The servers that play the answers: one for each version, for all cells of the table."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import hpack
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

from client.wire import h3_chaos
from peers import chaos, h2_chaos
from peers.authority import Leaf
from peers.peer import secure

from .answers import NO_CONTENT, Fields, Got, Reply, Scripts

_REFUSED, _INTERNAL_ERROR = 7, 2
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_H3_NO_ERROR, _H3_INTERNAL_ERROR, _H3_REJECTED = 0x100, 0x102, 0x10B


class H1Reply(Reply):
    """A response of HTTP/1.1: in chunks where no length is announced."""

    def __init__(
        self, got: Got, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(got)
        self._reader = reader
        self._writer = writer
        self._taken = False
        self._chunked = False

    async def take_content(self) -> None:
        if self._taken:
            return
        self._taken = True
        if "chunked" not in self.got.values("transfer-encoding"):
            length = int((self.got.values("content-length") or ["0"])[0])
            self.got.content += await self._reader.readexactly(length)
            return
        while size := int(await self._reader.readline(), 16):
            self.got.content += await self._reader.readexactly(size)
            await self._reader.readline()
        lines = (await self._reader.readuntil(b"\r\n")).decode()
        while not lines.endswith("\r\n\r\n") and lines != "\r\n":
            lines += (await self._reader.readuntil(b"\r\n")).decode()
        self.got.trailers += _fields(lines)

    async def informational(self, status: int, fields: Fields) -> None:
        await self._write(_h1_head(status, fields))

    async def head(self, status: int, fields: Fields) -> None:
        announced = any(name == "content-length" for name, _ in fields)
        self._chunked = not announced and status not in NO_CONTENT and self.got.method != "HEAD"
        if self._chunked:
            fields = [*fields, ("transfer-encoding", "chunked")]
        await self._write(_h1_head(status, fields))

    async def content(self, data: bytes) -> None:
        await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self, trailers: Fields) -> None:
        if self._chunked:
            await self._write(b"0\r\n" + _lines(trailers) + b"\r\n")

    async def cut(self) -> None:
        await self.close()

    async def refuse(self) -> None:
        raise NotImplementedError("no stream of HTTP/1.1 can be refused")

    async def go_away(self, *, including: bool) -> None:
        raise NotImplementedError("HTTP/1.1 has no GOAWAY")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def break_rules(self) -> None:
        await self._write(b"\0\x16\x03garbage\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _h1_head(status: int, fields: Fields) -> bytes:
    return b"HTTP/1.1 %d Fine\r\n" % status + _lines(fields) + b"\r\n"


def _lines(fields: Fields) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in fields).encode("latin-1")


def _fields(lines: str) -> list[tuple[str, str]]:
    split = (line.split(": ", 1) for line in lines.split("\r\n") if line)
    return [(name, value) for name, value in split]


def h1(scripts: Scripts) -> chaos.Script:
    """A connection of HTTP/1.1."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = object()
        while not writer.is_closing():
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, _, rest = lines.partition("\r\n")
            method, target, _ = first.split(" ")
            reply = H1Reply(Got(method, target, _fields(rest), connection), reader, writer)
            await scripts.play(reply)
            await reply.take_content()

    return script


class H2Reply(Reply):
    """A stream of HTTP/2."""

    def __init__(self, got: Got, stream: int, encoder: Any, writer: asyncio.StreamWriter) -> None:
        super().__init__(got)
        self.whole = asyncio.Event()
        self._stream = stream
        self._encoder = encoder
        self._writer = writer

    async def take_content(self) -> None:
        await self.whole.wait()

    async def informational(self, status: int, fields: Fields) -> None:
        await self.head(status, fields)

    async def head(self, status: int, fields: Fields) -> None:
        await self._headers([(":status", str(status)), *fields], 0)

    async def content(self, data: bytes) -> None:
        for at in range(0, len(data), 16_384):
            await self._frame(h2_chaos.DATA, 0, data[at : at + 16_384])

    async def end(self, trailers: Fields) -> None:
        if trailers:
            await self._headers(trailers, _END_STREAM)
        else:
            await self._frame(h2_chaos.DATA, _END_STREAM)
        if not self.whole.is_set():
            # RFC 9113 §8.1: no more of the content is wanted.
            await self._reset(0)

    async def cut(self) -> None:
        await self._reset(_INTERNAL_ERROR)

    async def refuse(self) -> None:
        await self._reset(_REFUSED)

    async def go_away(self, *, including: bool) -> None:
        last = self._stream if including else max(self._stream - 2, 0)
        self._writer.write(h2_chaos.frame(h2_chaos.GOAWAY, 0, 0, struct.pack(">II", last, 0)))
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def break_rules(self) -> None:
        # An index that no table has (RFC 7541 §6.1).
        await self._frame(h2_chaos.HEADERS, _END_HEADERS, b"\xff\xff\x7f")

    async def _headers(self, fields: Fields, flags: int) -> None:
        await self._frame(
            h2_chaos.HEADERS, _END_HEADERS | flags, self._encoder.encode(_bytes(fields))
        )

    async def _reset(self, code: int) -> None:
        await self._frame(h2_chaos.RST_STREAM, 0, struct.pack(">I", code))

    async def _frame(self, kind: int, flags: int, payload: bytes = b"") -> None:
        self._writer.write(h2_chaos.frame(kind, flags, self._stream, payload))
        await self._writer.drain()


class H2Connection:
    """A connection of HTTP/2 without TLS, by prior knowledge."""

    def __init__(self, scripts: Scripts, writer: asyncio.StreamWriter) -> None:
        self._scripts = scripts
        self._writer = writer
        self._decoder, self._encoder = hpack.Decoder(), hpack.Encoder()
        self._replies: dict[int, H2Reply] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Take a frame."""
        if kind in {h2_chaos.SETTINGS, h2_chaos.PING} and not flags & _ACK:
            echoed = payload if kind == h2_chaos.PING else b""
            self._writer.write(h2_chaos.frame(kind, _ACK, 0, echoed))
        if kind == h2_chaos.HEADERS:
            decoded = self._decoder.decode(payload, raw=True)
            fields = [(_text(name), _text(value)) for name, value in decoded]
            if stream in self._replies:
                self._replies[stream].got.trailers += fields
            else:
                self._begin(stream, fields)
        elif kind == h2_chaos.DATA:
            self._replies[stream].got.content += payload
            if payload:
                grant = struct.pack(">I", len(payload))
                for each in (0, stream):
                    self._writer.write(h2_chaos.frame(h2_chaos.WINDOW_UPDATE, 0, each, grant))
        if kind in {h2_chaos.HEADERS, h2_chaos.DATA} and flags & _END_STREAM:
            self._replies[stream].whole.set()

    def _begin(self, stream: int, fields: list[tuple[str, str]]) -> None:
        reply = H2Reply(_got(fields, self), stream, self._encoder, self._writer)
        self._replies[stream] = reply
        task = asyncio.ensure_future(self._scripts.play(reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """Play nothing any more."""
        for task in self._tasks:
            task.cancel()


def h2(scripts: Scripts) -> chaos.Script:
    """A connection of HTTP/2."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(scripts, writer)
        await reader.readexactly(len(_PREFACE))
        writer.write(h2_chaos.frame(h2_chaos.SETTINGS, 0, 0))
        try:
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                connection.on_frame(head[3], head[4], int.from_bytes(head[5:9]), payload)
                await writer.drain()
        finally:
            connection.end()

    return script


def _got(fields: list[tuple[str, str]], connection: object) -> Got:
    pseudo = dict(field for field in fields if field[0].startswith(":"))
    plain = [field for field in fields if not field[0].startswith(":")]
    plain.insert(0, ("host", pseudo[":authority"]))
    return Got(pseudo[":method"], pseudo[":path"], plain, connection)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _bytes(fields: Fields) -> list[tuple[bytes, bytes]]:
    """Names of fields are in lower case here (RFC 9113 §8.2.1)."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]


class H3Reply(Reply):
    """A stream of HTTP/3."""

    def __init__(self, got: Got, stream: int, server: H3Server) -> None:
        super().__init__(got)
        self.whole = asyncio.Event()
        self._stream = stream
        self._server = server

    async def take_content(self) -> None:
        await self.whole.wait()

    async def informational(self, status: int, fields: Fields) -> None:
        await self.head(status, fields)

    async def head(self, status: int, fields: Fields) -> None:
        self._headers([(":status", str(status)), *fields], end=False)

    async def content(self, data: bytes) -> None:
        self._send(h3_chaos.frame(h3_chaos.DATA, data))

    async def end(self, trailers: Fields) -> None:
        if trailers:
            self._headers(trailers, end=True)
        else:
            self._send(b"", end=True)
        if not self.whole.is_set():
            # RFC 9114 §4.1: no more of the content is wanted.
            self._server.stop(self._stream, _H3_NO_ERROR)
            self._server.transmit()

    async def cut(self) -> None:
        self._reset(_H3_INTERNAL_ERROR)

    async def refuse(self) -> None:
        self._reset(_H3_REJECTED)

    async def go_away(self, *, including: bool) -> None:
        # The first that was not processed (RFC 9114 §5.2).
        self._server.go_away(self._stream + 4 if including else self._stream)

    async def close(self) -> None:
        self._server.end(_H3_NO_ERROR)
        self._server.transmit()

    async def break_rules(self) -> None:
        # Content before any head (RFC 9114 §4.1).
        self._send(h3_chaos.frame(h3_chaos.DATA, b"x"))

    def _headers(self, fields: Fields, *, end: bool) -> None:
        self._send(self._server.headers(self._stream, fields), end=end)

    def _send(self, data: bytes, *, end: bool = False) -> None:
        self._server.send(self._stream, data, end)
        self._server.transmit()

    def _reset(self, code: int) -> None:
        self._server.reset(self._stream, code)
        self._server.transmit()


class H3Server(h3_chaos.Server):
    """A connection of HTTP/3: requests are read by aioquic, responses are written by hand."""

    scripts: Scripts
    _http: H3Connection

    def quic_event_received(self, event: QuicEvent) -> None:
        """Take what came."""
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
            self._replies: dict[int, H3Reply] = {}
            self._playing: set[asyncio.Task[None]] = set()
        for each in self._http.handle_event(event) if hasattr(self, "_http") else ():
            self._on_http(each)

    def _on_http(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            fields = [(_text(name), _text(value)) for name, value in event.headers]
            if event.stream_id in self._replies:
                self._replies[event.stream_id].got.trailers += fields
            else:
                self._begin(event.stream_id, fields)
        elif isinstance(event, DataReceived):
            self._replies[event.stream_id].got.content += event.data
        if isinstance(event, HeadersReceived | DataReceived) and event.stream_ended:
            self._replies[event.stream_id].whole.set()

    def _begin(self, stream: int, fields: list[tuple[str, str]]) -> None:
        reply = H3Reply(_got(fields, self), stream, self)
        self._replies[stream] = reply
        task = asyncio.ensure_future(self.scripts.play(reply))
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)

    def headers(self, stream: int, fields: Fields) -> bytes:
        """A frame of fields."""
        encoded = self._http._encode_headers(stream, _bytes(fields))
        return h3_chaos.frame(h3_chaos.HEADERS, encoded)

    def go_away(self, first: int) -> None:
        """Process no request from this stream on."""
        control = self._http._local_control_stream_id
        assert control is not None
        self.send(control, h3_chaos.frame(h3_chaos.GOAWAY, bytes([first])))
        self.transmit()


@contextmanager
def serving(scripts: Scripts, leaf: Leaf) -> Iterator[dict[str, str]]:
    """Run all three; gives the base URL of each version."""
    each = type("Playing", (H3Server,), {"scripts": scripts})
    with ExitStack() as stack:
        one = stack.enter_context(chaos.serve(h1(scripts)))
        two = stack.enter_context(chaos.serve(h2(scripts)))
        port = stack.enter_context(h3_chaos.serve(lambda *_: None, leaf, each))
        yield {"h1": one.base, "h2": two.base, "h3": secure(port)}

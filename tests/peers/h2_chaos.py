"""HTTP/2 servers that misbehave on purpose, over cleartext TCP (prior knowledge).

Frames are written by hand: a library would refuse to send most of this.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from .chaos import Script, forever, reset

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE = 0, 1, 3, 4, 5
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
_END_STREAM = _ACK = 1
_END_HEADERS = 4
# HPACK: index 8 of the static table is `:status: 200` (RFC 7541, Appendix A).
_OK = b"\x88"

OnRequest = Callable[[int, asyncio.StreamWriter], None]
OnContent = Callable[[int, int], None]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9113 §4.1)."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def response(stream: int, body: bytes = b"hello world") -> bytes:
    """A complete response."""
    return frame(HEADERS, _END_HEADERS, stream, _OK) + frame(DATA, _END_STREAM, stream, body)


def setting(identifier: int, value: int) -> bytes:
    """One setting of a SETTINGS frame."""
    return struct.pack(">HI", identifier, value)


def server(
    on_request: OnRequest,
    *,
    settings: bytes = b"",
    first: bytes = b"",
    whole: bool = False,
    greets: bool = True,
    on_content: OnContent | None = None,
) -> Script:
    """A script that greets, sends `first`, and calls `on_request` for each HEADERS that comes.

    Where requests are to be `whole`, it calls when one has ended. Where it does not greet, somebody
    else sends its SETTINGS, and takes the client's. `on_content` is told the stream
    and the length of each DATA.

    SETTINGS and PING are acknowledged; flow control of the client is never a limit for what these
    servers send, so its WINDOW_UPDATEs are passed over.
    """

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(_PREFACE))
        if greets:
            writer.write(frame(SETTINGS, 0, 0, settings) + first)
        while True:
            head = await reader.readexactly(9)
            length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
            stream = int.from_bytes(head[5:9]) & 0x7FFF_FFFF
            payload = await reader.readexactly(length)
            if kind == DATA and on_content is not None:
                on_content(stream, length)
            if kind == SETTINGS and not flags & _ACK and greets:
                writer.write(frame(SETTINGS, _ACK, 0))
            elif kind == PING and not flags & _ACK:
                writer.write(frame(PING, _ACK, 0, payload))
            elif (flags & _END_STREAM and kind in (HEADERS, DATA)) if whole else kind == HEADERS:
                on_request(stream, writer)
            await writer.drain()

    return script


def replies(*make: Callable[[int], bytes]) -> OnRequest:
    """Answer each request with what the functions make of its stream id."""

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        for part in make:
            writer.write(part(stream))

    return on_request


def goaway_each(count: int) -> Script:
    """Good, but each connection ends by GOAWAY after `count` requests."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            if served <= count:
                writer.write(response(stream))
            if served == count:
                writer.write(frame(GOAWAY, 0, 0, struct.pack(">II", stream, 0)))

        await server(on_request)(reader, writer)

    return script


def reset_each(count: int, code: int) -> Script:
    """Good, but each `count`-th stream is reset with that error code once its request has ended."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            if served % count == 0:
                writer.write(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))
            else:
                writer.write(response(stream))

        await server(on_request, whole=True)(reader, writer)

    return script


def flood(again: bytes) -> Script:
    """Greet, then repeat the same frames for ever, deaf to everything."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(_PREFACE))
        writer.write(frame(SETTINGS, 0, 0))

        async def drink() -> None:
            while await reader.read(65536):
                pass

        drain = asyncio.ensure_future(drink())
        try:
            while True:
                writer.write(again)
                await writer.drain()
        finally:
            drain.cancel()

    return script


async def answer_in_http_1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the preface in HTTP/1.1, as a server without HTTP/2 does."""
    await reader.readexactly(len(_PREFACE))
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await forever()


def _reset_connection(stream: int, writer: asyncio.StreamWriter) -> None:
    reset(writer)


def _silent(stream: int, writer: asyncio.StreamWriter) -> None:
    """Take the request and say nothing."""


_MANY = 256

# Name of the misbehaviour → script and the error kinds (DESIGN §5) that may name it.
H2: dict[str, tuple[Script, set[str]]] = {
    "silent": (server(_silent), {"timeout"}),
    "reset": (server(_reset_connection), {"reset", "closed"}),
    "bad HPACK index": (
        server(replies(lambda stream: frame(HEADERS, _END_HEADERS, stream, b"\xff\xff\x7f"))),
        {"protocol"},
    ),
    "window overflow": (
        server(replies(lambda _: frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"))),
        {"protocol"},
    ),
    "PING flood": (flood(frame(PING, 0, 0, b"8 octets") * _MANY), {"protocol", "limit", "timeout"}),
    "SETTINGS flood": (flood(frame(SETTINGS, 0, 0) * _MANY), {"protocol", "limit", "timeout"}),
    "endless CONTINUATION": (
        server(
            replies(
                lambda stream: frame(HEADERS, 0, stream, _OK),
                lambda stream: frame(CONTINUATION, 0, stream, b"\x40\x01a\x01b" * 3000) * 64,
            )
        ),
        {"protocol", "limit"},
    ),
    "empty DATA flood": (
        server(
            replies(
                lambda stream: frame(HEADERS, _END_HEADERS, stream, _OK),
                lambda stream: frame(DATA, 0, stream) * 100_000,
            )
        ),
        {"protocol", "limit", "timeout"},
    ),
}

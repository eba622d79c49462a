"""A response that is cut at every one of its bytes: whole, or the right error, and never a wait."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable

import pytest

from peers.authority import Authority
from peers.chaos import Script, reset, serve
from peers.h2_chaos import _PREFACE as PREFACE
from peers.h2_chaos import DATA, HEADERS, SETTINGS, frame
from trilane import _core
from trilane.client import errors

from .opening import WAIT_S, Opener, get

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKS = (
    b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;x\r\n world\r\n0\r\nX: y\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello world"
FRAMES = (
    frame(SETTINGS, 0, 0)
    + frame(SETTINGS, 1, 0)
    + frame(HEADERS, 4, 1, b"\x48\x03103")
    + frame(HEADERS, 4, 1, b"\x88")
    + frame(DATA, 0, 1, b"hello ")
    + frame(DATA, 0, 1, b"world")
    + frame(HEADERS, 5, 1, b"\x00\x01x\x01y")
)


def _cutting(whole: bytes, asked: Callable[[asyncio.StreamReader], object], end: str) -> Script:
    """Each connection gets a byte more than the one before, and then its end."""
    cut = -1

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal cut
        cut += 1
        here = cut
        await asked(reader)  # type: ignore[misc]
        writer.write(whole[:here])
        await writer.drain()
        if end == "close":
            writer.close()
            await writer.wait_closed()
            return
        # What TLS made of it is written in a turn of its own.
        await asyncio.sleep(0)
        reset(writer)

    return script


async def _head(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def _frames(reader: asyncio.StreamReader) -> None:
    await reader.readexactly(len(PREFACE))
    while True:
        head = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(head[:3]))
        if head[3] == HEADERS:
            return


def _all_of_it(exchange: _core.Exchange) -> tuple[int, bytes]:
    return exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize(
    ("kind", "secured"),
    [
        *((kind, False) for kind in ("length", "chunks", "until close", "h2")),
        # Of TLS what counts is whether its own end came.
        *((kind, True) for kind in ("until close", "h2")),
    ],
)
def test_a_response_that_is_cut(
    authority: Authority, opener: Opener, kind: str, secured: bool, end: str
) -> None:
    whole = {"length": LENGTH, "chunks": CHUNKS, "until close": UNTIL_CLOSE, "h2": FRAMES}[kind]
    version = "h2" if kind == "h2" else "h1"
    security = None
    if secured:
        leaf = authority.local()
        security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        security.load_cert_chain(leaf.cert, leaf.key)
        security.set_alpn_protocols(["h2" if version == "h2" else "http/1.1"])
    head_ends = whole.find(frame(DATA, 0, 1, b"hello ")) if kind == "h2" else 0
    if kind != "h2":
        head_ends = whole.find(b"\r\n\r\n", whole.find(b"200")) + 4
    script = _cutting(whole, _frames if kind == "h2" else _head, end)
    with serve(script, security) as chaos:
        # With TLS every third byte does, and the last ones.
        step = 3 if secured else 1
        for cut in range(len(whole) + 1):
            connection = opener.url(chaos.base, version)
            if cut % step and cut < len(whole) - 2:
                with contextlib.suppress(errors.RemoteError):
                    _all_of_it(get(connection, "/"))
                continue
            exchange = get(connection, "/")
            # The content is complete with its last chunk (RFC 9112 §8).
            last_chunk = kind == "chunks" and end == "close" and whole[:cut].endswith(b"\n0\r\n")
            if last_chunk or (cut == len(whole) and (kind != "until close" or end == "close")):
                assert _all_of_it(exchange) == (200, b"hello world")
                continue
            if kind == "until close" and cut >= head_ends and end == "close":
                assert exchange.read(timeout=WAIT_S) == whole[head_ends:cut]
                continue
            with pytest.raises(errors.RemoteError) as caught:
                _all_of_it(exchange)
            expected = errors.ConnectionClosed if cut < head_ends else errors.IncompleteBody
            assert type(caught.value) is expected, (cut, head_ends, repr(caught.value))
            assert connection.is_closing

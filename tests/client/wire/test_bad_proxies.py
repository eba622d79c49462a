"""Proxies that refuse, break off or say too much when asked for a tunnel."""

from __future__ import annotations

import asyncio

import pytest

from peers.chaos import Script, answer, close_at_accept, endless, request, serve
from peers.process import HOST, free_port
from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .memory import little_memory
from .opening import WAIT_S, fetch

# What the proxy does → what `connect` raises, and the status where there was one: one of each
# kind. What makes a tunnel, wherever it is cut, the tests of the crate `connection` say.
CASES: dict[str, tuple[Script, type[errors.Error], int | None]] = {
    "407": (
        answer(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno"),
        errors.ProxyError,
        407,
    ),
    "close": (close_at_accept, errors.ConnectFailed, None),
    "silent mid-head": (answer(b"HTTP/1.1 200 "), errors.ConnectTimeout, None),
    "close behind the tunnel": (
        answer(b"HTTP/1.1 200 Connection established\r\n\r\n", then="close"),
        errors.ConnectFailed,
        None,
    ),
    # What stands behind the proxy's answer is the origin's (RFC 9110 §9.3.6).
    "no TLS behind the tunnel": (
        answer(b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        errors.TLSError,
        None,
    ),
    "endless head": (
        endless(b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 1000 + b"\r\n"),
        errors.ConnectFailed,
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_tunnel_that_is_not_made(tls: _core.Tls, name: str) -> None:
    script, kind, status = CASES[name]
    timeout = 0.4 if kind is errors.ConnectTimeout else WAIT_S
    with serve(script) as proxy, little_memory(), pytest.raises(errors.ConnectFailed) as caught:
        _core.connect(
            "localhost", free_port(), tls=tls, proxy=(HOST, proxy.port, []), timeout=timeout
        )
    assert isinstance(caught.value, kind), repr(caught.value)
    if status is not None:
        assert caught.value.error_code == status
        assert str(status) in str(caught.value)


def _tunnel(to: int, head: bytes) -> Script:
    """A proxy that works, and begins with this."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        there, out = await asyncio.open_connection(HOST, to)
        try:
            for byte in head:
                writer.write(bytes([byte]))
                await writer.drain()

            async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()

            await asyncio.wait(
                [
                    asyncio.ensure_future(carry(reader, out)),
                    asyncio.ensure_future(carry(there, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            out.transport.abort()

    return script


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_a_tunnel(peers: Peers, tls: _core.Tls, version: str) -> None:
    head = b"HTTP/1.1 200 Connection established\r\n\r\n"
    base = peers["nginx"].bases["h2" if version == "h2" else "h1s"]
    port = int(base.rpartition(":")[2])
    with serve(_tunnel(port, head)) as proxy:
        connection = _core.connect(
            "localhost",
            port,
            versions=(version,),
            tls=tls,
            proxy=(HOST, proxy.port, [("proxy-authorization", "Basic eDp5")]),
            timeout=WAIT_S,
        )
        for _ in range(3):
            assert fetch(connection, "/hello") == (200, b"hello world")
        assert len(fetch(connection, "/bytes/131072")[1]) == 131072
        connection.close()

"""Connections that are not made: each failure as what it is, in time, with nothing left open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.waits import until
from peers import caddy, gonet, nginx
from peers.authority import Authority, Leaf
from peers.chaos import serve, tls_alert
from peers.h2_chaos import _PREFACE as PREFACE
from peers.peer import Peer
from peers.process import HOST
from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .memory import descriptors
from .opening import WAIT_S, Opener, fetch, get

Own = Callable[[Callable[[Path], Peer]], Peer]
SHORT_S = 0.2


@pytest.fixture(autouse=True)
def nothing_left_open(opener: Opener, keeper: None) -> Iterator[None]:
    """A connection that was not made has no descriptor."""
    before = descriptors()
    yield
    opener.close()
    opener.opened.clear()
    # The servers of a test may close theirs a little later.
    until(lambda: descriptors() <= before)


@pytest.fixture(scope="module")
def keeper(peers: Peers, tls: _core.Tls) -> None:
    """The keeper and its descriptors are there from the first connection of HTTP/2 on."""
    with contextlib.closing(Opener(tls)) as opener:
        fetch(opener.peer(peers["embedded"], "h2c"), "/hello")


def context(leaf: Leaf, *protocols: str) -> ssl.SSLContext:
    """A server's, with what it says by ALPN."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(leaf.cert, leaf.key)
    if protocols:
        made.set_alpn_protocols(list(protocols))
    return made


def test_a_port_whose_queue_is_full(tls: _core.Tls) -> None:
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind((HOST, 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        with pytest.raises(errors.ConnectTimeout) as caught:
            _core.connect(HOST, listener.getsockname()[1], tls=tls, timeout=SHORT_S)
        assert isinstance(caught.value, TimeoutError)


def test_a_udp_black_hole(tls: _core.Tls) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind((HOST, 0))
        port = hole.getsockname()[1]
        with pytest.raises(errors.ConnectTimeout):
            _core.connect("localhost", port, versions=("h3",), tls=tls, timeout=SHORT_S)


def test_tcp_alone_where_three_versions_are_asked_for(peers: Peers, opener: Opener) -> None:
    connection = opener.url(peers["nginx"].bases["h2"], "h3", "h2", "h1")
    assert connection.version == "h2"


def test_a_certificate_that_has_expired(own: Own, authority: Authority, tls: _core.Tls) -> None:
    peer = own(lambda folder: caddy.start(folder, authority.expired()))
    port = int(peer.bases["h3"].rpartition(":")[2])
    for version in ("h2", "h3"):
        with pytest.raises(errors.TLSError, match="expired") as caught:
            _core.connect("localhost", port, versions=(version,), tls=tls, timeout=WAIT_S)
        assert isinstance(caught.value, ssl.SSLError)
        trusting_all = _core.Tls(insecure=True)
        connection = _core.connect(
            "localhost", port, versions=(version,), tls=trusting_all, timeout=WAIT_S
        )
        assert fetch(connection, "/hello") == (200, b"hello world")
        connection.close()


def test_a_name_other_than_the_host(peers: Peers, tls: _core.Tls) -> None:
    port = int(peers["nginx"].bases["h1s"].rpartition(":")[2])
    with pytest.raises(errors.TLSError, match=r"other\.example"):
        _core.connect(HOST, port, tls=tls, server_name="other.example", timeout=WAIT_S)
    connection = _core.connect(HOST, port, tls=tls, server_name="localhost", timeout=WAIT_S)
    assert fetch(connection, "/sni") == (200, b"localhost")
    connection.close()


def test_a_client_certificate_that_is_demanded(
    own: Own, authority: Authority, tls: _core.Tls
) -> None:
    peer = own(lambda folder: gonet.start(folder, authority.local(), client_ca=authority.ca))
    port = int(peer.bases["h2"].rpartition(":")[2])
    for version in ("h1", "h2"):
        # TLS 1.3: the refusal comes after the client's part of the handshake is over.
        with pytest.raises(errors.Error) as caught:
            _request(_core.connect("localhost", port, versions=(version,), tls=tls, timeout=WAIT_S))
        assert isinstance(caught.value, errors.TLSError)
        assert "certificate" in str(caught.value)
    client = authority.client()
    proven = _core.Tls(
        authorities=[("ca", authority.ca.read_bytes())],
        platform=False,
        certificate=(client.cert.name, client.cert.read_bytes()),
        key=(client.key.name, client.key.read_bytes()),
    )
    connection = _core.connect("localhost", port, tls=proven, timeout=WAIT_S)
    assert fetch(connection, "/hello") == (200, b"hello world")
    connection.close()


def _request(connection: _core.Connection) -> None:
    try:
        fetch(connection, "/hello")
    finally:
        connection.close()


def test_an_alert_in_the_handshake(tls: _core.Tls) -> None:
    with serve(tls_alert) as chaos, pytest.raises(errors.TLSError) as caught:
        _core.connect("localhost", chaos.port, tls=tls, timeout=WAIT_S)
    assert "handshake" in str(caught.value).lower()


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65536)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    await asyncio.Event().wait()


def test_tls_to_a_port_without(tls: _core.Tls) -> None:
    with serve(_plain) as chaos, pytest.raises(errors.TLSError):
        _core.connect("localhost", chaos.port, tls=tls, timeout=WAIT_S)


def test_no_tls_to_a_port_with_it(peers: Peers, opener: Opener) -> None:
    port = peers["gonet"].bases["h1s"].rpartition(":")[2]
    # Go answers in words, in HTTP/1.0.
    assert fetch(opener.url(f"http://localhost:{port}", "h1"), "/")[0] == 400


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_server_that_ends_in_the_handshake(tls: _core.Tls, end: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536 if end == "close" else 1)
        writer.close()

    with serve(script) as chaos, pytest.raises(errors.ConnectFailed):
        _core.connect("localhost", chaos.port, tls=tls, timeout=WAIT_S)


def test_a_server_without_the_version_that_is_asked_for(
    authority: Authority, tls: _core.Tls, opener: Opener
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    for protocols in ((), ("http/1.1",)):
        with serve(script, context(authority.local(), *protocols)) as chaos:
            with pytest.raises(errors.VersionUnavailable):
                _core.connect("localhost", chaos.port, versions=("h2",), tls=tls, timeout=WAIT_S)
            connection = opener.url(chaos.base, "h2", "h1")
            assert connection.version == "h1"
            assert fetch(connection, "/") == (200, b"ok")


def test_http_2_announced_and_http_1_spoken(authority: Authority, opener: Opener) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await asyncio.Event().wait()

    with serve(script, context(authority.local(), "h2")) as chaos:
        connection = opener.url(chaos.base, "h2", "h1")
        with pytest.raises(errors.RemoteProtocolError):
            get(connection, "/").head(WAIT_S)
        assert connection.is_closing


@pytest.mark.parametrize("framed", [True, False], ids=["length", "until close"])
@pytest.mark.parametrize("notified", [True, False], ids=["close_notify", "cut"])
def test_the_end_of_tls(authority: Authority, opener: Opener, framed: bool, notified: bool) -> None:
    length = b"Content-Length: 11\r\n" if framed else b""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\nhello world")
        await writer.drain()
        if notified:
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0)
        raw: socket.socket = writer.get_extra_info("socket")
        with socket.fromfd(raw.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
            same.shutdown(socket.SHUT_RDWR)

    with serve(script, context(authority.local(), "http/1.1")) as chaos:
        exchange = get(opener.url(chaos.base, "h1"), "/")
        assert exchange.head(WAIT_S) == 200
        if framed or notified:
            assert exchange.read(timeout=WAIT_S) == b"hello world"
            return
        with pytest.raises(errors.IncompleteBody):
            exchange.read(timeout=WAIT_S)
        assert exchange.read1(timeout=WAIT_S) == b"hello world"


def test_tls_1_2(own: Own, authority: Authority, opener: Opener) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.local(), protocols="TLSv1.2"))
    connection = opener.url(peer.bases["h2"], "h2", "h1")
    info = connection.tls_info
    assert info is not None
    assert (info["version"], connection.version) == ("TLSv1.2", "h2")
    assert fetch(connection, "/hello") == (200, b"hello world")


def test_sessions_are_resumed(peers: Peers, tls: _core.Tls, opener: Opener) -> None:
    base = peers["nginx"].bases["h1s"]
    resumed = []
    for _ in range(3):
        connection = opener.url(base, "h1")
        assert fetch(connection, "/hello") == (200, b"hello world")
        info = connection.tls_info
        assert info is not None
        resumed.append(info["resumed"])
        assert info["certificates"]
        connection.close()
    assert resumed[-1] is True

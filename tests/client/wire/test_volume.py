"""Much at once and large content: all arrives, in bounded memory, and nobody waits for others."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from peers import nghttpd
from peers.authority import Authority
from peers.chaos import serve, silent
from peers.h2_chaos import WINDOW_UPDATE, frame, response, server
from peers.peer import Peer
from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .memory import little_memory
from .opening import WAIT_S, Opener, fetch, get, in_threads

# More than twice what a large transfer may take.
LARGE, LITTLE_MIB = 40 << 20, 16
PIECE = 1 << 20
Own = Callable[[Callable[[Path], Peer]], Peer]


def _checked(exchange: _core.Exchange, length: int) -> None:
    """Read content that repeats 4,096 bytes, each of them its index modulo 251."""
    block = bytes(index % 251 for index in range(4096)) * (PIECE // 4096 + 1)
    buffer = bytearray(PIECE)
    taken = 0
    while count := exchange.readinto(buffer, WAIT_S):
        start = taken % 4096
        assert memoryview(buffer)[:count] == memoryview(block)[start : start + count]
        taken += count
    assert taken == length


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_large_download_in_little_memory(peers: Peers, opener: Opener, listener: str) -> None:
    connection = opener.peer(peers["gonet"], listener)
    with little_memory(LITTLE_MIB):
        exchange = get(connection, f"/bytes/{LARGE}")
        assert exchange.head(WAIT_S) == 200
        _checked(exchange, LARGE)
        assert exchange.complete
    assert fetch(connection, "/hello") == (200, b"hello world")


@pytest.mark.parametrize("listener", ["h1s", "h2c"])
def test_large_upload_in_little_memory(peers: Peers, opener: Opener, listener: str) -> None:
    connection = opener.peer(peers["gonet"], listener)
    piece = bytes(range(256)) * (PIECE // 256)
    with little_memory(LITTLE_MIB):
        exchange = connection.submit("POST", "/echo", [], streaming=True)
        checksum = 0
        for _ in range(LARGE // PIECE):
            exchange.write(piece, WAIT_S)
            checksum = zlib.crc32(piece, checksum)
        exchange.finish(timeout=WAIT_S)
        assert exchange.head(WAIT_S) == 200
        fields = {name.lower(): value for name, value in exchange.fields()}
        assert fields["x-crc32"] == f"{checksum:08x}"
    # All of it would come back; it need not.
    exchange.cancel()


def test_large_upload_over_quic(peers: Peers, opener: Opener) -> None:
    # Echoed by a server in Python, hence not so large: three of its windows.
    content = bytes(range(256)) * (3 * PIECE // 256)
    connection = opener.peer(peers["hypercorn"], "h3")
    exchange = connection.submit("POST", "/echo", [], streaming=True, length=len(content))
    exchange.write(content, WAIT_S)
    assert fetch(connection, "/hello") == (200, b"hello world")
    exchange.finish(timeout=WAIT_S)
    assert exchange.head(WAIT_S) == 200
    assert exchange.read(timeout=WAIT_S) == content


def test_large_download_over_quic(peers: Peers, opener: Opener) -> None:
    peer = peers["caddy"]
    content = bytes(index * 31 % 251 for index in range(1 << 16)) * (LARGE >> 16)
    (peer.process.log.parent / "htdocs" / "large").write_bytes(content)
    connection = opener.peer(peer, "h3")
    checksum = 0
    with little_memory(LITTLE_MIB):
        exchange = get(connection, "/large")
        assert exchange.head(WAIT_S) == 200
        assert exchange.content_length == LARGE
        while piece := exchange.read(PIECE, WAIT_S):
            checksum = zlib.crc32(piece, checksum)
    assert checksum == zlib.crc32(content)


@pytest.mark.parametrize(("name", "listener"), [("gonet", "h2"), ("caddy", "h3")])
def test_nobody_waits_for_a_slow_reader(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    peer = peers[name]
    length = 8 << 20
    block = bytes(index % 251 for index in range(4096))
    if name == "caddy":
        (peer.process.log.parent / "htdocs" / "slow").write_bytes(block * (length >> 12))
    target = "/slow" if name == "caddy" else f"/bytes/{length}"
    connection = opener.peer(peer, listener)
    slow = [get(connection, target) for _ in range(4)]
    for _ in range(50):
        assert fetch(connection, "/hello") == (200, b"hello world")
    for exchange in slow:
        assert exchange.head(WAIT_S) == 200
        assert not exchange.complete
        # Its window, and what a reader that lags behind is granted.
        assert exchange.unread <= (1 << 20) + 512 * 1024
    for exchange in slow[1:]:
        exchange.cancel()
    _checked(slow[0], length)
    assert fetch(connection, "/hello") == (200, b"hello world")


@pytest.mark.parametrize(("name", "listener"), [("caddy", "h3"), ("caddy", "h2")])
def test_many_slow_readers_do_not_use_up_the_window_of_the_connection(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    peer = peers[name]
    length = 1 << 20
    (peer.process.log.parent / "htdocs" / "mebibyte").write_bytes(bytes(length))
    connection = opener.peer(peer, listener)
    fetch(connection, "/hello")
    # More than 64 MiB that nobody reads.
    slow = [get(connection, "/mebibyte") for _ in range(90)]
    for _ in range(20):
        assert fetch(connection, "/hello") == (200, b"hello world")
    for exchange in reversed(slow):
        assert len(exchange.read(timeout=WAIT_S)) == length


def test_a_thousand_streams_at_once(own: Own, opener: Opener, authority: Authority) -> None:
    leaf = authority.local()
    peer = own(lambda folder: nghttpd.start(folder, leaf, streams=1000))
    connection = opener.peer(peer, "h2")
    fetch(connection, "/hello")
    assert connection.capacity == 1000
    outstanding = [get(connection, "/bytes/1024") for _ in range(1000)]
    for exchange in outstanding[1::2] + outstanding[::2]:
        assert exchange.head(WAIT_S) == 200
        assert len(exchange.read(timeout=WAIT_S)) == 1024
    assert (connection.outstanding, connection.capacity) == (0, 1000)


@pytest.mark.parametrize(("name", "listener"), [("nginx", "h2"), ("caddy", "h3")])
def test_threads_share_a_connection(peers: Peers, opener: Opener, name: str, listener: str) -> None:
    connection = opener.peer(peers[name], listener)
    fetch(connection, "/hello")

    def work(index: int) -> None:
        for turn in range(10):
            target, length = ("/bytes/16384", 16384) if (index + turn) % 2 else ("/hello", 11)
            status, content = fetch(connection, target)
            assert (status, len(content)) == (200, length)

    in_threads(16, work)
    assert connection.outstanding == 0


def test_threads_upload_and_download_on_one_connection(peers: Peers, opener: Opener) -> None:
    connection = opener.peer(peers["gonet"], "h2")

    def work(index: int) -> None:
        content = bytes([index]) * (2 << 20)
        exchange = connection.submit("POST", "/echo", [], streaming=True)
        for start in range(0, len(content), 100_000):
            exchange.write(content[start : start + 100_000], WAIT_S)
        exchange.finish(timeout=WAIT_S)
        assert exchange.head(WAIT_S) == 200
        assert exchange.read(timeout=WAIT_S) == content

    in_threads(8, work)


def test_a_window_that_never_opens_stops_one_upload_only(opener: Opener) -> None:
    uploads: list[int] = []

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        if not uploads:
            uploads.append(stream)
            return
        writer.write(response(stream))

    closed = struct.pack(">HI", 4, 0)
    with serve(server(on_request, settings=closed)) as chaos:
        connection = opener.chaos(chaos, "h2")
        upload = connection.submit("POST", "/", [], streaming=True)
        with pytest.raises(errors.WriteTimeout) as caught:
            upload.write(bytes(1 << 20), 0.1)
        assert caught.value.stream_id == 1
        assert fetch(connection, "/") == (200, b"hello world")
        assert upload.upload_open
        upload.cancel()
        assert fetch(connection, "/") == (200, b"hello world")


def test_a_window_that_opens_bit_by_bit(opener: Opener) -> None:
    # Each GET lets 1,000 bytes more of the upload go, and the last one answers it.
    seen: list[int] = []

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        seen.append(stream)
        if len(seen) > 1:
            writer.write(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1000)) + response(stream))
        if len(seen) == 6:
            writer.write(response(1, b"enough"))

    with serve(server(on_request, settings=struct.pack(">HI", 4, 0))) as chaos:
        connection = opener.chaos(chaos, "h2")
        upload = connection.submit("POST", "/", [], streaming=True)
        upload.write(bytes(5000), WAIT_S)
        upload.finish(timeout=WAIT_S)
        for _ in range(5):
            assert fetch(connection, "/") == (200, b"hello world")
        assert (upload.head(WAIT_S), upload.read(timeout=WAIT_S)) == (200, b"enough")


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_a_server_that_does_not_read_stops_the_writer(opener: Opener, version: str) -> None:
    with little_memory(), serve(silent) as chaos:
        upload = opener.chaos(chaos, version).submit("POST", "/", [], streaming=True)
        with pytest.raises(errors.WriteTimeout):
            upload.write(bytes(100 * PIECE), 0.1)
        # It may be asked again, and says the same.
        with pytest.raises(errors.WriteTimeout):
            upload.write(bytes(PIECE), 0.1)

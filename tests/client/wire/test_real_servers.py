"""Requests of every kind to servers of other makers, in every version they speak."""

from __future__ import annotations

import itertools

import pytest

from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .opening import EVERY, H2, SPOKEN, WAIT_S, Opener, fetch, get

ECHOING = [
    (name, listener) for name, listener in EVERY if name in ("nghttpd", "gonet", "hypercorn")
]
FILES = [(name, listener) for name, listener in EVERY if name in ("nginx", "nghttpd", "caddy")]


@pytest.mark.parametrize(("name", "listener"), EVERY)
def test_requests_one_after_the_other(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    assert connection.version == SPOKEN[listener]
    ids = []
    for _ in range(20):
        exchange = get(connection, "/hello")
        assert exchange.head(WAIT_S) == 200
        assert exchange.read(timeout=WAIT_S) == b"hello world"
        assert exchange.complete
        ids.append(exchange.stream_id)
    step = {"h1": 1, "h2": 2, "h3": 4}[connection.version]
    assert [later - earlier for earlier, later in itertools.pairwise(ids)] == [step] * 19
    assert connection.outstanding == 0
    assert connection.is_alive()


@pytest.mark.parametrize(("name", "listener"), [("nginx", "h1s"), ("caddy", "h2"), ("caddy", "h3")])
def test_what_the_handshake_agreed_on(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    info = opener.peer(peers[name], listener).tls_info
    assert info is not None
    assert info["version"] == "TLSv1.3"
    assert info["alpn"] in ("http/1.1", "h2", "h3")
    certificates = info["certificates"]
    assert isinstance(certificates, list)
    assert certificates[0].startswith(b"\x30\x82")


@pytest.mark.parametrize(("name", "listener"), EVERY)
def test_content_that_every_server_has(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    status, content = fetch(connection, "/bytes/16384")
    assert (status, len(content)) == (200, 16384)
    exchange = get(connection, "/missing")
    assert exchange.head(WAIT_S) in (200, 404)
    exchange.read(timeout=WAIT_S)


# Caddy before 2.7 sends content over QUIC that it may not send: see the next test.
@pytest.mark.parametrize(("name", "listener"), [each for each in EVERY if each != ("caddy", "h3")])
def test_a_response_to_head_has_no_content(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    for _ in range(2):
        exchange = get(connection, "/hello", "HEAD")
        assert exchange.head(WAIT_S) == 200
        assert exchange.read(timeout=WAIT_S) == b""
        assert exchange.complete
    assert fetch(connection, "/hello") == (200, b"hello world")


def _read(exchange: _core.Exchange) -> tuple[bytes | None, errors.Error]:
    try:
        return exchange.read(timeout=WAIT_S), errors.Error()
    except errors.Error as error:
        return None, error


def test_a_response_to_head_over_quic(peers: Peers, opener: Opener) -> None:
    connection = opener.peer(peers["caddy"], "h3")
    exchange = get(connection, "/hello", "HEAD")
    assert exchange.head(WAIT_S) == 200
    content, error = _read(exchange)
    # RFC 9114 §4.1.2: malformed, H3_MESSAGE_ERROR; later versions send nothing.
    assert content == b"" or error.error_code == 0x10E
    assert fetch(connection, "/hello") == (200, b"hello world")


@pytest.mark.parametrize(("name", "listener"), FILES)
def test_not_modified_has_no_content(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    first = get(connection, "/bytes/1024")
    assert first.head(WAIT_S) == 200
    modified = {key.lower(): value for key, value in first.fields()}["last-modified"]
    assert len(first.read(timeout=WAIT_S)) == 1024
    again = connection.submit("GET", "/bytes/1024", [("if-modified-since", modified)])
    assert again.head(WAIT_S) == 304
    assert again.read(timeout=WAIT_S) == b""
    assert fetch(connection, "/hello") == (200, b"hello world")


@pytest.mark.parametrize(("name", "listener"), ECHOING)
def test_content_goes_both_ways(peers: Peers, opener: Opener, name: str, listener: str) -> None:
    peer = peers[name]
    assert peer.upload is not None
    content = bytes(range(256)) * 1000
    connection = opener.peer(peer, listener)
    whole = connection.submit("POST", peer.upload, [], content)
    assert (whole.head(WAIT_S), whole.read(timeout=WAIT_S)) == (200, content)
    pieces = connection.submit("POST", peer.upload, [], streaming=True)
    for start in range(0, len(content), 10_000):
        pieces.write(content[start : start + 10_000], WAIT_S)
    pieces.finish(timeout=WAIT_S)
    assert (pieces.head(WAIT_S), pieces.read(timeout=WAIT_S)) == (200, content)
    announced = connection.submit("PUT", peer.upload, [], streaming=True, length=len(content))
    announced.write(memoryview(content), WAIT_S)
    announced.finish(timeout=WAIT_S)
    assert (announced.head(WAIT_S), announced.read(timeout=WAIT_S)) == (200, content)


@pytest.mark.parametrize(("name", "listener"), [*H2, ("caddy", "h3"), ("hypercorn", "h3")])
def test_hundred_at_once_read_backwards(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    fetch(connection, "/hello")
    outstanding = []
    for _ in range(100):
        try:
            outstanding.append(get(connection, "/bytes/1024"))
        except errors.Full:
            # QUIC tells of the credit that the first request gave back when it likes to.
            assert connection.version == "h3"
            break
    assert len(outstanding) >= 98
    for exchange in reversed(outstanding):
        assert exchange.head(WAIT_S) == 200
        assert len(exchange.read(timeout=WAIT_S)) == 1024
    assert connection.outstanding == 0


@pytest.mark.parametrize("listener", ["h2", "h2c"])
def test_push_is_refused(peers: Peers, opener: Opener, listener: str) -> None:
    # nghttpd pushes only what its clients allow, and ours says SETTINGS_ENABLE_PUSH = 0.
    name = "nghttpd" if listener == "h2" else "nghttpd-plain"
    connection = opener.peer(peers[name], listener)
    assert fetch(connection, "/hello") == (200, b"hello world")
    assert connection.settings()["max_concurrent_streams"] == 128

"""What comes before and after content, with servers that are not ours."""

from __future__ import annotations

import pytest

from peers.chaos import good, serve
from peers.running import Peers
from trilane.client import errors

from .opening import WAIT_S, Opener, fetch, get

TWO = [("h1", "gonet"), ("h1s", "gonet"), ("h2", "gonet"), ("h2c", "gonet")]


@pytest.mark.parametrize(("listener", "name"), TWO)
def test_early_hints_come_before_the_response(
    peers: Peers, opener: Opener, listener: str, name: str
) -> None:
    exchange = get(opener.peer(peers[name], listener), "/hints")
    assert exchange.wait_informational(WAIT_S) == 103
    assert exchange.wait_informational(WAIT_S) == 103
    assert exchange.wait_informational(WAIT_S) is None
    assert exchange.head(WAIT_S) == 200
    assert exchange.read(timeout=WAIT_S) == b"hello world"
    links = [
        value
        for status, fields in exchange.informational
        for name, value in fields
        if status == 103 and name.lower() == "link"
    ]
    assert links == ["</style.css>; rel=preload; as=style"] * 2
    assert not [name for name, _ in exchange.fields() if name.lower() == "link"]


@pytest.mark.parametrize(("listener", "name"), TWO)
def test_trailers_both_ways(peers: Peers, opener: Opener, listener: str, name: str) -> None:
    connection = opener.peer(peers[name], listener)
    announced = [("trailer", "x-checksum, x-other")]
    exchange = connection.submit("POST", "/echo", announced, streaming=True)
    exchange.write(b"hello ", WAIT_S)
    exchange.write(b"world", WAIT_S)
    exchange.finish([("x-checksum", "0d4a1185"), ("x-other", "b")], WAIT_S)
    assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello world")
    trailers = {name.lower(): value for name, value in exchange.trailers()}
    assert trailers == {"x-checksum": "0d4a1185", "x-other": "b"}
    received = get(connection, "/trailers")
    assert (received.head(WAIT_S), received.read(timeout=WAIT_S)) == (200, b"hello world")
    assert [value for _, value in received.trailers()] == ["0d4a1185"]


@pytest.mark.parametrize(("listener", "name"), [*TWO, ("h1s", "nginx"), ("h1s", "hypercorn")])
def test_content_waits_for_100_continue(
    peers: Peers, opener: Opener, listener: str, name: str
) -> None:
    peer = peers[name]
    assert peer.upload is not None
    connection = opener.peer(peer, listener)
    fields = [("expect", "100-continue")]
    exchange = connection.submit("POST", peer.upload, fields, streaming=True, length=5)
    assert exchange.wait_informational(WAIT_S) == 100
    exchange.write(b"hello", WAIT_S)
    exchange.finish(timeout=WAIT_S)
    assert exchange.wait_informational(WAIT_S) is None
    assert exchange.head(WAIT_S) == 200
    assert exchange.read(timeout=WAIT_S) == (b"hello" if peer.echoes else b"hello world")


def test_switching_protocols_cannot_be_asked_for(opener: Opener) -> None:
    with serve(good) as chaos:
        connection = opener.chaos(chaos)
        fields = [("upgrade", "echo"), ("connection", "upgrade")]
        with pytest.raises(errors.InvalidRequest):
            connection.submit("GET", "/", fields)
        assert fetch(connection, "/") == (200, b"hello world")


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_trailers_that_may_not_be_sent_are_refused(
    peers: Peers, opener: Opener, listener: str
) -> None:
    connection = opener.peer(peers["gonet"], listener)
    for name, value in [("content-length", "1"), ("a b", "c"), ("x", "a\r\nb: c"), ("", "")]:
        exchange = connection.submit("POST", "/echo", [], streaming=True)
        exchange.write(b"hello", WAIT_S)
        with pytest.raises(errors.InvalidRequest):
            exchange.finish([(name, value)], WAIT_S)
        exchange.finish(timeout=WAIT_S)
        assert (exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)) == (200, b"hello")

"""Giving up, and forgetting: in every state, at no cost to others, with nothing left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from client.waits import until, when_asleep
from peers.chaos import H1, serve, silent
from peers.h2_chaos import server
from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .memory import descriptors, little_memory, resident_kib
from .opening import WAIT_S, Opener, fetch, get, in_threads

SHARED = [("nghttpd", "h2"), ("caddy", "h3")]
# Bytes of content. A small response comes to its end though nobody reads it, a large one does not.
SMALL, LARGE = 128 << 10, 1 << 20


def _at_once(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    return get(connection, f"/bytes/{size}")


def _after_head(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    exchange = get(connection, f"/bytes/{size}")
    assert exchange.head(WAIT_S) == 200
    return exchange


def _in_content(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    exchange = _after_head(connection, size)
    assert exchange.read(1000, WAIT_S)
    return exchange


def _complete(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    exchange = _after_head(connection, size)
    assert len(exchange.read(timeout=WAIT_S)) == size
    return exchange


def _uploading(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    exchange = connection.submit("POST", "/hello", [], streaming=True)
    exchange.write(bytes(300_000), WAIT_S)
    return exchange


def _upload_not_begun(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    return connection.submit("POST", "/hello", [], streaming=True)


def _not_flushed(connection: _core.Connection, size: int = SMALL) -> _core.Exchange:
    return connection.submit("GET", f"/bytes/{size}", [], flush=False)


STATES: list[Callable[..., _core.Exchange]] = [
    _at_once,
    _after_head,
    _in_content,
    _complete,
    _uploading,
    _upload_not_begun,
    _not_flushed,
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("name", "listener"), SHARED)
def test_one_stream_is_cancelled(
    peers: Peers,
    opener: Opener,
    name: str,
    listener: str,
    state: Callable[..., _core.Exchange],
) -> None:
    connection = opener.peer(peers[name], listener)
    other = get(connection, "/bytes/131072")
    for _ in range(5):
        exchange = state(connection)
        ended = exchange.complete
        exchange.cancel()
        # The response may have come meanwhile; after that nothing changes.
        complete = exchange.complete
        assert complete or not ended
        exchange.cancel()
        assert exchange.complete == complete
        if not complete:
            with pytest.raises(errors.LocalError) as caught:
                exchange.read1(timeout=WAIT_S) if not exchange.unread else exchange.read()
            assert (caught.value.stream_id or 0) == exchange.stream_id
            assert not exchange.upload_open
        # Dropped, the same again.
        state(connection)
    assert other.head(WAIT_S) == 200
    assert len(other.read(timeout=WAIT_S)) == 131072
    assert fetch(connection, "/hello") == (200, b"hello world")
    assert not connection.is_closing
    del exchange
    assert connection.outstanding == 0


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("drop", [False, True], ids=["cancel", "drop"])
def test_http_1_closes_to_cancel(
    peers: Peers,
    opener: Opener,
    state: Callable[..., _core.Exchange],
    drop: bool,
) -> None:
    connection = opener.peer(peers["nginx"], "h1s")
    exchange = state(connection, LARGE)
    ended = exchange.complete
    if drop:
        del exchange
    else:
        exchange.cancel()
    assert connection.is_closing != ended
    if not ended:
        with pytest.raises(errors.Error) as caught:
            get(connection, "/hello")
        assert caught.value.retryable


@pytest.mark.parametrize("version", ["h1", "h2"])
@pytest.mark.parametrize("what", ["cancel", "close"])
def test_another_thread_ends_a_wait(opener: Opener, version: str, what: str) -> None:
    script = H1["silent after accept"][0] if version == "h1" else server(lambda *_: None)
    with serve(script) as chaos:
        connection = opener.chaos(chaos, version)
        exchange = get(connection, "/")

        expected = errors.LocalError if what == "cancel" else errors.ConnectionClosed
        end = exchange.cancel if what == "cancel" else connection.close
        with when_asleep(end), pytest.raises(expected):
            exchange.head(WAIT_S)


def test_a_writer_is_ended_by_another_thread(opener: Opener) -> None:
    with serve(silent) as chaos:
        exchange = opener.chaos(chaos).submit("POST", "/", [], streaming=True)
        with when_asleep(exchange.cancel), pytest.raises(errors.Error):
            exchange.write(bytes(64 << 20), WAIT_S)


@pytest.mark.parametrize(("name", "listener"), [*SHARED, ("nginx", "h1s")])
def test_closing_ends_everything(peers: Peers, opener: Opener, name: str, listener: str) -> None:
    connection = opener.peer(peers[name], listener)
    count = 1 if listener == "h1s" else 20
    outstanding = [get(connection, "/bytes/131072") for _ in range(count)]
    connection.close()
    connection.close()
    for exchange in outstanding:
        with pytest.raises(errors.ConnectionClosed):
            exchange.read(timeout=WAIT_S)
    assert (connection.capacity, connection.is_closing, connection.is_alive()) == (0, True, False)
    with pytest.raises(errors.ConnectionClosed):
        get(connection, "/hello")


@pytest.mark.parametrize(("name", "listener"), [("nginx", "h1"), ("nghttpd-plain", "h2c")])
def test_thousands_of_requests_leave_nothing(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)

    def requests(count: int) -> None:
        for index in range(count):
            exchange = get(connection, "/hello")
            assert exchange.head(WAIT_S) == 200
            if index % 3 == 0 or listener == "h1":
                assert exchange.read(timeout=WAIT_S) == b"hello world"

    requests(500)
    gc.collect()
    before, open_before = resident_kib(), descriptors()
    with little_memory(16):
        requests(3_000)
    assert resident_kib() - before < 6 * 1024
    until(lambda: descriptors() <= open_before)


@pytest.mark.parametrize(("name", "listener"), [("nghttpd-plain", "h2c"), ("caddy", "h3")])
def test_large_responses_that_nobody_reads_leave_nothing(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    connection = opener.peer(peers[name], listener)
    fetch(connection, "/hello")
    with little_memory(16):
        # Fewer than the thousand resets that nghttpd takes at once.
        for _ in range(60):
            several = [get(connection, "/bytes/131072") for _ in range(4)]
            several[0].head(WAIT_S)
            several[1].read(1, WAIT_S)
    del several
    # Windows of what was dropped have been given back.
    status, content = fetch(connection, "/bytes/131072")
    assert (status, len(content)) == (200, 131072)
    assert connection.outstanding == 0


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2", "h3"])
def test_connections_that_are_dropped_leave_nothing(
    peers: Peers, tls: _core.Tls, listener: str
) -> None:
    peer = peers["caddy"]
    opener = Opener(tls)

    def connect() -> None:
        connection = opener.peer(peer, listener)
        opener.opened.clear()
        exchange = get(connection, "/bytes/131072")
        assert exchange.head(WAIT_S) == 200

    connect()
    before = descriptors()
    for _ in range(10):
        connect()
    until(lambda: descriptors() <= before)


def test_threads_cancel_at_random_moments(peers: Peers, opener: Opener) -> None:
    connection = opener.peer(peers["nghttpd"], "h2")

    def work(index: int) -> None:
        for turn in range(14):
            exchange = STATES[(index + turn) % len(STATES)](connection)
            if turn % 2:
                exchange.cancel()
            assert fetch(connection, "/hello") == (200, b"hello world")

    in_threads(8, work)
    assert connection.outstanding == 0
    assert not connection.is_closing

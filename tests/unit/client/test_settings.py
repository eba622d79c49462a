"""HTTP/2 before the server's SETTINGS: one request leaves at once, the others behind these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peers.h2_chaos import DATA, HEADERS, RST_STREAM, SETTINGS, frame, response, setting
from trilane._core import Connection, Exchange
from trilane.client.errors import ConnectionClosed, Full, GoAway, ReadTimeout, RemoteProtocolError

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STREAMS = 3  # SETTINGS_MAX_CONCURRENT_STREAMS
_GOAWAY = 7


def frames(sent: bytes) -> Iterator[tuple[int, int]]:
    """Kind and stream of each frame that was sent."""
    rest = sent.removeprefix(_PREFACE)
    while rest:
        yield rest[3], int.from_bytes(rest[5:9])
        rest = rest[9 + int.from_bytes(rest[:3]) :]


def streams(connection: Connection, kind: int = HEADERS) -> list[int]:
    """The streams of those frames of a kind that leave now."""
    return [stream for one, stream in frames(connection.output()) if one == kind]


def allows(number: int) -> bytes:
    """The SETTINGS of a server that allows so many requests at a time."""
    return frame(SETTINGS, 0, 0, setting(_STREAMS, number))


def asked(count: int) -> tuple[Connection, list[Exchange]]:
    connection = Connection.memory("h2")
    return connection, [connection.submit("GET", "/", []) for _ in range(count)]


def test_one_leaves_at_once_and_the_others_when_the_settings_have_come() -> None:
    connection, exchanges = asked(3)
    assert streams(connection) == [1]
    assert [exchange.stream_id for exchange in exchanges] == [1, 0, 0]
    assert (connection.outstanding, connection.capacity) == (3, 97)
    connection.receive(allows(10))
    assert streams(connection) == [3, 5]
    assert [exchange.stream_id for exchange in exchanges] == [1, 3, 5]
    assert (connection.outstanding, connection.capacity) == (3, 7)
    connection.receive(response(5))
    assert exchanges[2].head(0) == 200


def test_what_the_server_does_not_allow_is_told_as_not_sent() -> None:
    connection, exchanges = asked(8)
    connection.receive(allows(5))
    assert streams(connection) == [1, 3, 5, 7, 9]
    for exchange in exchanges[5:]:
        with pytest.raises(Full) as caught:
            exchange.head(0)
        assert (caught.value.retryable, caught.value.stream_id) == (True, None)
    assert (connection.outstanding, connection.capacity) == (5, 0)


def test_no_more_than_a_hundred_wait() -> None:
    connection, _ = asked(100)
    assert connection.capacity == 0
    with pytest.raises(Full):
        connection.submit("GET", "/", [])
    connection.receive(allows(1000))
    assert len(streams(connection)) == 100
    assert connection.capacity == 900


def test_content_waits_with_its_request() -> None:
    connection, _ = asked(1)
    exchange = connection.submit("POST", "/", [], streaming=True)
    exchange.write(b"content", 0)
    exchange.finish(None, 0)
    assert streams(connection) == [1]
    connection.receive(allows(10))
    of_it = [kind for kind, stream in frames(connection.output()) if stream == 3]
    assert (of_it[0], set(of_it[1:])) == (HEADERS, {DATA})
    connection.receive(response(3))
    assert exchange.head(0) == 200


@pytest.mark.parametrize("pieces", [0, 1])
def test_content_that_comes_in_pieces_waits_for_room(pieces: int) -> None:
    connection, (first,) = asked(1)
    exchange = connection.submit("POST", "/", [], streaming=True)
    for _ in range(pieces):
        exchange.write(b"content", 0)
    connection.receive(allows(1))
    assert streams(connection) == [1]
    with pytest.raises(Full):
        connection.submit("GET", "/", [])
    connection.receive(response(1))
    assert first.read(timeout=0) == b"hello world"
    assert streams(connection) == [3]
    exchange.finish(None, 0)
    assert streams(connection, DATA) == [3]
    connection.receive(response(3))
    assert exchange.head(0) == 200


def test_the_error_of_one_that_was_never_sent_has_no_stream() -> None:
    _, (_, second) = asked(2)
    with pytest.raises(ReadTimeout) as caught:
        second.head(0)
    assert caught.value.stream_id is None


def test_one_that_is_given_up_is_never_sent() -> None:
    connection, (first, second, third) = asked(3)
    second.cancel()
    first.cancel()
    assert list(frames(connection.output()))[-2:] == [(HEADERS, 1), (RST_STREAM, 1)]
    connection.receive(allows(10))
    assert streams(connection) == [3]
    assert third.stream_id == 3


def test_the_end_of_the_connection_is_told_as_not_sent() -> None:
    connection, (first, second) = asked(2)
    connection.eof()
    for exchange, retryable in ((first, False), (second, True)):
        with pytest.raises(ConnectionClosed) as caught:
            exchange.head(0)
        assert caught.value.retryable is retryable


def test_a_server_that_breaks_rules_is_not_asked_again_for_those_that_were_held() -> None:
    connection, (_, second) = asked(2)
    with pytest.raises(RemoteProtocolError):
        connection.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(RemoteProtocolError) as caught:
        second.head(0)
    assert not caught.value.retryable


def test_a_server_that_is_going_away_gets_no_more() -> None:
    connection, (_, second) = asked(2)
    connection.receive(allows(10) + frame(_GOAWAY, 0, 0, bytes([0, 0, 0, 1, 0, 0, 0, 0])))
    assert streams(connection) == [1]
    with pytest.raises(GoAway) as caught:
        second.head(0)
    assert caught.value.retryable

"""Requests and responses over every version, against the embedded server."""

from __future__ import annotations

import gc
import hashlib
import json
import random

import pytest

from client.waits import until
from trilane._core import Connection, Decoder, Exchange
from trilane.client.errors import ConnectionClosed, Error, Full, InvalidRequest, ReadTimeout

from .conftest import LANES, TIMEOUT, Open


def get(connection: Connection, target: str) -> Exchange:
    return connection.submit("GET", target, [])


def pattern(size: int) -> bytes:
    """What /bytes/{size} serves."""
    return bytes(index * 31 % 251 for index in range(size))


@pytest.mark.parametrize("lane", LANES, indirect=True)
def test_a_get(lane: Connection) -> None:
    exchange = get(lane, "/hello")
    assert exchange.head(TIMEOUT) == 200
    fields = {name.lower(): value for name, value in exchange.fields()}
    assert fields["content-length"] == "11"
    assert exchange.content_length == 11
    assert exchange.read(timeout=TIMEOUT) == b"hello world"
    assert exchange.read(timeout=TIMEOUT) == b""
    assert exchange.complete
    assert exchange.unread == 0
    assert exchange.trailers() == []
    assert exchange.version == lane.version
    assert exchange.reason == ("OK" if lane.version == "h1" else "")
    assert exchange.informational == []
    assert lane.outstanding == 0


def test_one_after_another(lane: Connection) -> None:
    ids = []
    for number in range(20):
        exchange = get(lane, f"/bytes/{number}")
        assert exchange.head(TIMEOUT) == 200
        assert len(exchange.read(timeout=TIMEOUT)) == number
        ids.append(exchange.stream_id)
    assert ids == sorted(set(ids))
    assert lane.is_alive()


def test_what_is_sent(lane: Connection) -> None:
    given: list[tuple[str | bytes, str | bytes]] = [
        ("X-Text", "one"),
        (b"x-bytes", b"two"),
        ("x-latin", "caf\xe9"),
        ("x-text", "three"),
    ]
    exchange = lane.submit("GET", "/headers?q=1", given, authority="example.test:99")
    arrived = json.loads(exchange.read(timeout=TIMEOUT))
    assert arrived["method"] == "GET"
    text = json.dumps(arrived).lower()
    assert "example.test:99" in text
    for value in ("one", "two", "three"):
        assert value in text


def test_methods_and_statuses(lane: Connection) -> None:
    for status in (204, 304, 404, 503):
        exchange = get(lane, f"/status/{status}")
        assert exchange.head(TIMEOUT) == status
        exchange.read(timeout=TIMEOUT)
    exchange = lane.submit("HEAD", "/bytes/1000", [])
    assert exchange.head(TIMEOUT) == 200
    assert exchange.content_length == 1000
    assert exchange.read(500, TIMEOUT) == b""


def test_a_body(lane: Connection) -> None:
    for size in (0, 1, 70_000, 3_000_000):
        body = random.Random(size).randbytes(size)
        exchange = lane.submit("POST", "/echo", [("content-type", "a/b")], body)
        assert exchange.head(TIMEOUT) == 200
        received = exchange.read(timeout=TIMEOUT)
        assert hashlib.sha256(received).digest() == hashlib.sha256(body).digest()


def test_a_streamed_body(lane: Connection) -> None:
    pieces: list[bytes | bytearray | memoryview] = [
        b"one, ",
        bytearray(b"two, "),
        memoryview(b"a three b")[2:7],
        b"",
    ]
    for length in (None, 15):
        exchange = lane.submit("PUT", "/echo", [], streaming=True, length=length)
        for piece in pieces:
            exchange.write(piece, TIMEOUT)
        exchange.finish(timeout=TIMEOUT)
        assert exchange.head(TIMEOUT) == 200
        assert exchange.read(timeout=TIMEOUT) == b"one, two, three"


def test_writing_and_reading_in_turns(lane: Connection) -> None:
    """More than all windows together, so that both directions must be kept going."""
    piece = random.Random(1).randbytes(200_000)
    exchange = lane.submit("PUT", "/echo", [], streaming=True)
    received = hashlib.sha256()
    for _ in range(20):
        exchange.write(piece, TIMEOUT)
        while exchange.unread:
            received.update(exchange.read1(timeout=TIMEOUT))
    exchange.finish(timeout=TIMEOUT)
    received.update(exchange.read(timeout=TIMEOUT))
    assert received.digest() == hashlib.sha256(piece * 20).digest()


def test_an_echo_is_read_after_all_of_it_was_written(lane: Connection) -> None:
    """Nobody reads while it is written: the one who writes keeps the other direction going."""
    piece = random.Random(2).randbytes(200_000)
    exchange = lane.submit("PUT", "/echo", [], streaming=True)
    for _ in range(40):
        exchange.write(piece, TIMEOUT)
    exchange.finish(timeout=TIMEOUT)
    assert exchange.read(timeout=TIMEOUT) == piece * 40


def test_ways_to_read(lane: Connection) -> None:
    size = 1_000_000
    expected = get(lane, f"/bytes/{size}").read(timeout=TIMEOUT)
    assert len(expected) == size

    exchange = get(lane, f"/bytes/{size}")
    exact = [exchange.read(7, TIMEOUT), exchange.read(300_000, TIMEOUT)]
    assert [len(part) for part in exact] == [7, 300_000]
    assert exchange.read(0, TIMEOUT) == b""
    assert b"".join(exact) + exchange.read(10**12, TIMEOUT) == expected

    exchange = get(lane, f"/bytes/{size}")
    some = []
    while part := exchange.read1(50_000, TIMEOUT):
        assert len(part) <= 50_000
        some.append(part)
    assert b"".join(some) == expected

    exchange = get(lane, f"/bytes/{size}")
    buffer = bytearray(size)
    filled = 0
    while count := exchange.readinto(memoryview(buffer)[filled:], TIMEOUT):
        filled += count
    assert (filled, bytes(buffer)) == (size, expected)


def test_buffers_that_cannot_be_filled(lane: Connection) -> None:
    exchange = get(lane, "/hello")
    with pytest.raises(BufferError, match="writable and contiguous"):
        exchange.readinto(b"constant", TIMEOUT)
    with pytest.raises(BufferError, match="writable and contiguous"):
        exchange.readinto(memoryview(bytearray(10))[::2], TIMEOUT)
    assert exchange.readinto(bytearray(), TIMEOUT) == 0
    assert exchange.read(timeout=TIMEOUT) == b"hello world"


def test_a_coded_response(lane: Connection) -> None:
    exchange = lane.submit("GET", "/books", [("accept-encoding", "gzip")])
    assert ("content-encoding", "gzip") in [
        (name.lower(), value) for name, value in exchange_fields(exchange)
    ]
    decoder = Decoder(["gzip"])
    text = b""
    while part := exchange.read1(1000, TIMEOUT):
        text += decoder.decode(part)
    assert len(json.loads(text + decoder.finish())) == 3000


def exchange_fields(exchange: Exchange) -> list[tuple[str, str]]:
    exchange.head(TIMEOUT)
    return exchange.fields()


def test_a_hundred_read_in_any_order(shared: Connection) -> None:
    sizes = list(range(1000, 101_000, 1000))
    random.Random(7).shuffle(sizes)
    exchanges = {size: get(shared, f"/bytes/{size}") for size in sizes}
    assert len({exchange.token for exchange in exchanges.values()}) == 100
    random.Random(8).shuffle(sizes)
    for size in sizes:
        assert len(exchanges[size].read(timeout=TIMEOUT)) == size
    assert len({exchange.stream_id for exchange in exchanges.values()}) == 100


def test_requests_leave_though_nobody_waits(shared: Connection) -> None:
    exchanges = [get(shared, "/hello") for _ in range(3)]
    # Nobody waits for any of them until all of them are there.
    until(lambda: all(exchange.complete for exchange in exchanges))


def test_who_reads_slowly_stalls_nobody(shared: Connection) -> None:
    slow = get(shared, "/bytes/8m")
    assert slow.head(TIMEOUT) == 200
    for _ in range(10):
        assert len(get(shared, "/bytes/300k").read(timeout=TIMEOUT)) == 300 * 1024
    # What may come unasked, and what was read before the pause took effect.
    assert slow.unread < 4 * 1024 * 1024
    assert len(slow.read(timeout=TIMEOUT)) == 8 * 1024 * 1024


def test_a_cancelled_exchange_leaves_the_others_alone(shared: Connection) -> None:
    waiting = get(shared, "/delay/60s")
    other = get(shared, "/bytes/2m")
    waiting.cancel()
    waiting.cancel()
    with pytest.raises(Error, match="cancelled"):
        waiting.head(TIMEOUT)
    assert other.head(TIMEOUT) == 200
    assert other.read(timeout=TIMEOUT)
    assert get(shared, "/hello").read(timeout=TIMEOUT) == b"hello world"


def test_dropping_cancels(shared: Connection) -> None:
    exchange = get(shared, "/delay/60s")
    assert shared.outstanding == 1
    del exchange
    gc.collect()
    assert shared.outstanding == 0
    assert get(shared, "/hello").head(TIMEOUT) == 200


def test_cancelling_closes_http_1(open_lane: Open) -> None:
    connection = open_lane("h1")
    exchange = get(connection, "/delay/60s")
    exchange.cancel()
    assert connection.is_closing
    assert not connection.is_alive()
    with pytest.raises(Error):
        get(connection, "/hello")


def test_capacity(open_lane: Open) -> None:
    connection = open_lane("h1")
    assert connection.capacity == 1
    exchange = get(connection, "/delay/100ms")
    assert (connection.capacity, connection.outstanding) == (0, 1)
    with pytest.raises(Full):
        get(connection, "/hello")
    assert exchange.head(TIMEOUT) == 200
    exchange.read(timeout=TIMEOUT)
    assert (connection.capacity, connection.outstanding) == (1, 0)


def test_many_streams(shared: Connection) -> None:
    get(shared, "/hello").read(timeout=TIMEOUT)
    assert shared.capacity >= 100
    assert all(isinstance(value, int) for value in shared.settings().values())


def test_closing_fails_what_is_outstanding(lane: Connection) -> None:
    exchange = get(lane, "/delay/60s")
    lane.close()
    lane.close()
    assert lane.is_closing
    assert not lane.is_alive()
    with pytest.raises(ConnectionClosed, match="closed here") as caught:
        exchange.head(TIMEOUT)
    assert isinstance(caught.value, ConnectionResetError)
    assert caught.value.stream_id == exchange.stream_id
    with pytest.raises(ConnectionClosed) as caught:
        get(lane, "/hello")
    # That one never left.
    assert caught.value.retryable


def test_a_timeout_can_be_waited_out(lane: Connection) -> None:
    exchange = get(lane, "/delay/300ms")
    with pytest.raises(ReadTimeout, match="50ms") as caught:
        exchange.head(0.05)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.stream_id == exchange.stream_id
    with pytest.raises(ReadTimeout):
        exchange.head(0)
    assert exchange.head(TIMEOUT) == 200


def test_a_timeout_loses_nothing(lane: Connection) -> None:
    exchange = lane.submit("POST", "/echo", [], streaming=True)
    exchange.write(bytes(20), TIMEOUT)
    with pytest.raises(ReadTimeout):
        exchange.read(timeout=0.05)
    exchange.write(bytes(20), TIMEOUT)
    exchange.finish(timeout=TIMEOUT)
    assert len(exchange.read(10, TIMEOUT)) == 10
    assert len(exchange.read(timeout=TIMEOUT)) == 30


@pytest.mark.parametrize("timeout", [-1, float("nan"), -0.001])
def test_timeouts_that_make_no_sense(lane: Connection, timeout: float) -> None:
    exchange = get(lane, "/hello")
    with pytest.raises(InvalidRequest, match="number of seconds"):
        exchange.head(timeout)
    assert exchange.head(float("inf")) == 200


def test_trailers_of_a_request(shared: Connection) -> None:
    """The embedded server gives them back over h2, and takes them over h3."""
    exchange = shared.submit("POST", "/echo", [], streaming=True)
    exchange.write(b"content", TIMEOUT)
    exchange.finish([("x-checksum", "7"), (b"x-other", b"8")], TIMEOUT)
    assert exchange.read(timeout=TIMEOUT) == b"content"
    expected = [("x-checksum", "7"), ("x-other", "8")]
    assert exchange.trailers() == (expected if shared.version == "h2" else [])

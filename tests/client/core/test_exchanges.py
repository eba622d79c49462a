"""What only the native part shows: waits that end, exchanges that are dropped, watching.

What callers see of requests and responses is in `client/behaviours`.
"""

from __future__ import annotations

import gc

import pytest

from client.waits import until
from trilane._core import HEAD, Connection, Exchange
from trilane.client.errors import ConnectionClosed, Error, Full, InvalidRequest, ReadTimeout

from .conftest import TIMEOUT, Open


def get(connection: Connection, target: str) -> Exchange:
    return connection.submit("GET", target, [])


def test_buffers_that_cannot_be_filled(open_lane: Open) -> None:
    exchange = get(open_lane("h1"), "/hello")
    with pytest.raises(BufferError, match="writable and contiguous"):
        exchange.readinto(b"constant", TIMEOUT)
    with pytest.raises(BufferError, match="writable and contiguous"):
        exchange.readinto(memoryview(bytearray(10))[::2], TIMEOUT)
    assert exchange.readinto(bytearray(), TIMEOUT) == 0
    assert exchange.read(timeout=TIMEOUT) == b"hello world"


def test_requests_leave_though_nobody_waits(shared: Connection) -> None:
    exchanges = [get(shared, "/hello") for _ in range(3)]
    # Nobody waits for any of them until all of them are there.
    until(lambda: all(exchange.complete for exchange in exchanges))


def test_dropping_cancels(shared: Connection) -> None:
    exchange = get(shared, "/delay/60s")
    assert shared.outstanding == 1
    del exchange
    gc.collect()
    assert shared.outstanding == 0
    assert get(shared, "/hello").head(TIMEOUT) == 200


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


def test_a_failure_is_told_to_who_watches(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/60s", [])
    assert not exchange.watch(HEAD)
    lane.close()
    assert exchange.token in lane.drive()
    assert exchange.watch(HEAD)
    with pytest.raises(Error):
        exchange.head(0)


def test_driving_never_waits(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/300s", [])
    for _ in range(10):
        lane.drive()
        lane.flush()
    assert not exchange.watch(HEAD)
    exchange.cancel()

"""An event loop drives connections: nothing in it waits but the selector."""

from __future__ import annotations

import selectors
from collections.abc import Iterator

import pytest

from trilane._core import DATA, END, HEAD, WRITABLE, Connection, Exchange
from trilane.client.errors import Error

from .conftest import TIMEOUT


class Loop:
    """The smallest loop that does what the documentation of `drive` asks for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._key = self._selector.register(connection.fileno(), selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()

    def turn(self) -> list[int]:
        """Wait for the socket or the timer, and drive."""
        events = selectors.EVENT_READ
        if self._connection.wants_write:
            events |= selectors.EVENT_WRITE
        self._selector.modify(self._key.fd, events)
        due = self._connection.timeout
        self._selector.select(TIMEOUT if due is None else min(due, TIMEOUT))
        return self._connection.drive()

    def until(self, exchange: Exchange, what: int) -> None:
        """Drive until the exchange has what is watched for."""
        if exchange.watch(what):
            return
        while exchange.token not in self.turn():
            pass


@pytest.fixture
def loop(lane: Connection) -> Iterator[Loop]:
    running = Loop(lane)
    yield running
    running.close()


def test_a_response(lane: Connection, loop: Loop) -> None:
    exchange = lane.submit("GET", "/drip?bytes=10&duration=100ms&delay=100ms", [])
    loop.until(exchange, HEAD)
    assert exchange.head(0) == 200
    received = b""
    while not exchange.complete or exchange.unread:
        loop.until(exchange, DATA)
        received += exchange.read1(timeout=0)
    assert len(received) == 10
    assert exchange.watch(HEAD)
    assert exchange.watch(DATA)
    assert exchange.watch(END)
    assert exchange.read1(timeout=0) == b""


def test_all_of_a_large_response(lane: Connection, loop: Loop) -> None:
    exchange = lane.submit("GET", "/bytes/5m", [], flush=False)
    loop.until(exchange, END)
    assert exchange.complete
    assert len(exchange.read(timeout=0)) == 5 * 1024 * 1024


def test_an_upload(lane: Connection, loop: Loop) -> None:
    exchange = lane.submit("POST", "/echo", [], streaming=True)
    received = 0
    for _ in range(100):
        loop.until(exchange, WRITABLE)
        exchange.write(bytes(50_000), 0)
        lane.drive()
        while exchange.unread:
            received += len(exchange.read1(timeout=0))
    # The last piece may still wait for room.
    loop.until(exchange, WRITABLE)
    exchange.finish(timeout=0)
    while not exchange.complete or exchange.unread:
        loop.until(exchange, DATA)
        received += len(exchange.read1(timeout=0))
    assert received == 5_000_000


def test_a_failure_is_told_too(lane: Connection, loop: Loop) -> None:
    exchange = lane.submit("GET", "/delay/60s", [])
    assert not exchange.watch(HEAD)
    lane.close()
    assert exchange.token in lane.drive()
    assert exchange.watch(HEAD)
    with pytest.raises(Error):
        exchange.head(0)


def test_many_at_once(shared: Connection) -> None:
    loop = Loop(shared)
    try:
        exchanges = [shared.submit("GET", f"/bytes/{size}", [], flush=False) for size in range(100)]
        shared.flush()
        waiting = {exchange.token: exchange for exchange in exchanges if not exchange.watch(END)}
        assert waiting
        while waiting:
            for token in loop.turn():
                del waiting[token]
        assert [len(exchange.read(timeout=0)) for exchange in exchanges] == list(range(100))
    finally:
        loop.close()


def test_driving_never_waits(lane: Connection) -> None:
    exchange = lane.submit("GET", "/delay/300s", [])
    for _ in range(10):
        lane.drive()
        lane.flush()
    assert not exchange.watch(HEAD)
    exchange.cancel()

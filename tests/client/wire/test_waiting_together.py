"""Threads that wait on one connection: whoever leads hands over, and nobody is forgotten."""

from __future__ import annotations

import contextlib
import random
import threading

import pytest

from client.waits import until
from peers.running import Peers
from trilane import _core
from trilane.client import errors

from .opening import WAIT_S, Opener, fetch, get, in_threads


def _patiently(exchange: _core.Exchange, chance: random.Random) -> bytes:
    """Wait in many short turns."""
    while True:
        with contextlib.suppress(errors.ReadTimeout):
            exchange.head(chance.choice([0, 0.0001, 0.001, 0.01]))
            return exchange.read(timeout=WAIT_S)


@pytest.mark.parametrize("listener", ["h2", "h2c"])
def test_short_and_long_waits(peers: Peers, opener: Opener, listener: str) -> None:
    connection = opener.peer(peers["gonet"], listener)

    def work(index: int) -> None:
        chance = random.Random(index)
        for _ in range(40):
            exchange = get(connection, f"/delay/{chance.choice([0, 1, 3, 10])}ms")
            kind = chance.randrange(5)
            if kind == 0:
                exchange.cancel()
                continue
            if kind == 1:
                with contextlib.suppress(errors.ReadTimeout):
                    exchange.head(0.002)
                continue
            content = _patiently(exchange, chance) if kind == 2 else exchange.read(timeout=WAIT_S)
            assert content == b"hello world"

    in_threads(12, work)
    assert fetch(connection, "/hello") == (200, b"hello world")
    assert connection.outstanding == 0


def test_exchanges_are_read_by_other_threads_than_sent_them(peers: Peers, opener: Opener) -> None:
    connection = opener.peer(peers["caddy"], "h3")
    fetch(connection, "/hello")
    for _ in range(10):
        outstanding = [get(connection, "/bytes/16384") for _ in range(40)]

        def work(index: int, mine: list[_core.Exchange] = outstanding) -> None:
            for exchange in mine[index::8]:
                assert len(exchange.read(timeout=WAIT_S)) == 16384

        in_threads(8, work)


def test_one_who_polls_among_those_who_wait(peers: Peers, opener: Opener) -> None:
    connection = opener.peer(peers["nghttpd"], "h2")
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            assert connection.is_alive()
            connection.flush()
            assert connection.capacity > 0

    poller = threading.Thread(target=poll)
    poller.start()

    def work(_index: int) -> None:
        for _ in range(50):
            assert fetch(connection, "/hello") == (200, b"hello world")

    try:
        in_threads(6, work)
    finally:
        stop.set()
        poller.join()


def test_quic_goes_on_though_nobody_waits(peers: Peers, opener: Opener) -> None:
    # Timers of QUIC run whether or not somebody waits; TCP is the kernel's.
    connection = opener.peer(peers["caddy"], "h3")
    exchange = get(connection, "/hello")
    until(lambda: exchange.complete)
    assert exchange.read(timeout=0) == b"hello world"


@pytest.mark.parametrize(("name", "listener"), [("nginx", "h1"), ("nginx", "h2"), ("caddy", "h3")])
def test_a_response_that_waits_for_its_reader(
    peers: Peers, opener: Opener, name: str, listener: str
) -> None:
    exchange = get(opener.peer(peers[name], listener), "/bytes/131072")
    # The server has had the time to answer both.
    assert len(fetch(opener.peer(peers[name], listener), "/bytes/131072")[1]) == 131072
    assert len(exchange.read(timeout=WAIT_S)) == 131072

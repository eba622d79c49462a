"""Many threads on one connection."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from trilane._core import Connection

from .conftest import TIMEOUT, Open

THREADS = 32


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run it in that many threads at once; what fails in one fails here."""
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, number) for number in range(threads)]:
            done.result(timeout=300)


def test_threads_share_a_connection(shared: Connection) -> None:
    ids: list[int] = []

    def work(number: int) -> None:
        choose = random.Random(number)
        for _ in range(10):
            size = choose.randrange(30_000)
            exchange = shared.submit("GET", f"/bytes/{size}", [("x-thread", str(number))])
            assert exchange.head(TIMEOUT) == 200
            ids.append(exchange.stream_id)
            assert len(exchange.read(timeout=TIMEOUT)) == size

    together(work)
    assert len(set(ids)) == THREADS * 10
    assert shared.outstanding == 0


def test_uploads_side_by_side(shared: Connection) -> None:
    def work(number: int) -> None:
        body = random.Random(number).randbytes(200_000)
        exchange = shared.submit("POST", "/echo", [], streaming=True)
        received = b""
        for at in range(0, len(body), 10_000):
            exchange.write(body[at : at + 10_000], TIMEOUT)
            while exchange.unread:
                received += exchange.read1(timeout=TIMEOUT)
        exchange.finish(timeout=TIMEOUT)
        received += exchange.read(timeout=TIMEOUT)
        assert received == body

    together(work, 16)


def test_some_give_up(shared: Connection) -> None:
    def work(number: int) -> None:
        for turn in range(10):
            # Few in all: servers take many resets for an attack (CVE-2023-44487).
            if number % 8 == turn == 5:
                shared.submit("GET", "/delay/60s", []).cancel()
            else:
                assert shared.submit("GET", "/hello", []).read(timeout=TIMEOUT) == b"hello world"

    together(work)
    assert shared.outstanding == 0


def test_one_who_submits_and_one_who_reads(shared: Connection) -> None:
    """An exchange may be handed to another thread."""
    exchanges = [shared.submit("GET", f"/bytes/{size}", []) for size in range(100)]

    def work(number: int) -> None:
        assert len(exchanges[number].read(timeout=TIMEOUT)) == number

    together(work, len(exchanges))


def test_connections_are_independent(open_lane: Open) -> None:
    barrier = threading.Barrier(8)
    connections = [open_lane("h1") for _ in range(8)]

    def work(number: int) -> None:
        barrier.wait(TIMEOUT)
        for _ in range(20):
            exchange = connections[number].submit("GET", "/hello", [])
            assert exchange.read(timeout=TIMEOUT) == b"hello world"

    together(work, 8)

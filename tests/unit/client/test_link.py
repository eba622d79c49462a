"""One connection on a loop: what is written together, who is woken, what is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from client.waits import eventually, turns
from trilane._core import DATA, HEAD, INFORMATIONAL, WRITABLE, Connection, Exchange
from trilane.client._aio.deadlines import Deadlines
from trilane.client._aio.link import Link
from trilane.client._flow.request import Request

from .fake import FakeConnection, FakeExchange


class Bench:
    """A link over a fake connection, and what it reported."""

    def __init__(self) -> None:
        self.connection = FakeConnection()
        self.changes = 0
        self.ends = 0
        self.link = Link(
            asyncio.get_running_loop(),
            cast("Connection", self.connection),
            changed=self._changed,
            ended=self._ended,
        )

    def submit(self) -> tuple[Exchange, FakeExchange]:
        request, connection = Request("GET", "/", "a"), self.link.connection
        exchange = request.submit(connection, self.link.alt_used, flush=False)
        self.link.touch()
        return exchange, cast("FakeExchange", exchange)

    def _changed(self, _: Link) -> None:
        self.changes += 1

    def _ended(self, _: Link) -> None:
        self.ends += 1


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.link.close()


def test_requests_of_one_turn_leave_in_one_write() -> None:
    async def main() -> None:
        async with bench() as made:
            for _ in range(1000):
                made.submit()
            assert made.connection.flushes == 0
            await turns()
            assert made.connection.flushes == 1
            await turns()
            assert made.connection.flushes == 1

    asyncio.run(main())


def test_a_token_wakes_its_own_task_only() -> None:
    async def main() -> None:
        async with bench() as made:
            first, second = made.submit()[0], made.submit()[0]
            early = made.link.expect(first, HEAD, reads=True)
            late = made.link.expect(second, HEAD, reads=True)
            assert early is not None
            assert late is not None
            made.connection.progress(second.token)
            assert await late is True
            assert not early.done()

    asyncio.run(main())


def test_what_has_come_is_not_awaited() -> None:
    async def main() -> None:
        async with bench() as made:
            exchange, fake = made.submit()
            fake.state = DATA
            assert made.link.expect(exchange, HEAD, reads=True) is None

    asyncio.run(main())


def test_an_upload_and_a_response_are_awaited_at_once() -> None:
    async def main() -> None:
        async with bench() as made:
            exchange, _ = made.submit()
            response = made.link.expect(exchange, HEAD, reads=True)
            room = made.link.expect(exchange, WRITABLE, reads=False)
            assert response is not None
            assert room is not None
            made.connection.progress(exchange.token)
            assert all(await asyncio.gather(response, room))

    asyncio.run(main())


def test_one_more_interim_response_is_seen_though_the_other_task_looked_last() -> None:
    """The native part watches for what was waited for last, here the head."""

    async def main() -> None:
        async with bench() as made:
            exchange, fake = made.submit()
            made.link.upload(exchange)
            consent = made.link.expect(exchange, INFORMATIONAL, reads=False)
            assert consent is not None
            assert made.link.expect(exchange, HEAD, reads=True) is not None
            made.connection.progress()
            await turns()
            assert not consent.done()
            fake.informational.append((100, []))
            made.connection.progress()
            assert await consent is True

    asyncio.run(main())


def test_a_waiter_that_was_cancelled_is_passed_over() -> None:
    async def main() -> None:
        async with bench() as made:
            exchange, fake = made.submit()
            future = made.link.expect(exchange, HEAD, reads=True)
            assert future is not None
            future.cancel()
            made.link.cancel(exchange)
            made.connection.progress(exchange.token)
            await turns(10)
            assert fake.cancelled
            assert made.connection.drives >= 1

    asyncio.run(main())


def test_closing_wakes_everybody_and_reports_once() -> None:
    async def main() -> None:
        async with bench() as made:
            exchange, _ = made.submit()
            future = made.link.expect(exchange, HEAD, reads=True)
            assert future is not None
            made.link.close()
            made.link.close()
            assert await future is True
            assert made.link.is_closed
            assert made.ends == 1
            assert made.link.expect(exchange, HEAD, reads=True) is None

    asyncio.run(main())


def test_a_connection_that_the_peer_ended_is_closed_when_nothing_is_outstanding() -> None:
    async def main() -> None:
        async with bench() as made:
            made.submit()
            made.connection.is_closing = True
            made.connection.progress()
            await turns(5)
            assert made.ends == 0
            made.connection.outstanding = 0
            made.connection.progress()
            await turns(5)
            assert made.ends == 1
            assert made.link.is_closed

    asyncio.run(main())


def test_timers_of_the_connection_are_kept() -> None:
    async def main() -> None:
        async with bench() as made:
            made.connection.timeout = 0.01
            made.submit()
            await turns()
            made.connection.timeout = None
            driven = made.connection.drives
            await eventually(lambda: made.connection.drives > driven)

    asyncio.run(main())


def test_output_that_is_left_waits_for_the_socket() -> None:
    async def main() -> None:
        async with bench() as made:
            made.connection.wants_write = True
            made.submit()
            await turns()
            # A socket pair with room is writable at once.
            await eventually(lambda: made.connection.drives > 0)
            made.connection.wants_write = False
            made.link.touch()
            await turns(5)
            driven = made.connection.drives
            await turns(5)
            assert made.connection.drives == driven

    asyncio.run(main())


def test_a_failure_of_the_connection_ends_it_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with bench() as made:
            exchange, _ = made.submit()
            future = made.link.expect(exchange, HEAD, reads=True)
            assert future is not None

            def broken() -> list[int]:
                raise RuntimeError("broken")

            made.connection.drive = broken  # type: ignore[method-assign]
            made.connection.progress()
            assert await future is True
            assert made.link.is_closed

    asyncio.run(main())
    assert "is a bug" in caplog.text


def test_limits_expire_in_their_order() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(loop)
        short, long = deadlines.limit(0.02), deadlines.limit(30.0)
        first, second, third = (loop.create_future() for _ in range(3))
        short.add(first)
        short.add(second)
        long.add(third)
        short.discard(first)
        assert await second is False
        assert not first.done()
        assert not third.done()
        assert len(short) == 0
        assert len(long) == 1
        deadlines.close()

    asyncio.run(main())


def test_limits_that_nobody_uses_are_forgotten() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(loop)
        kept = deadlines.limit(1000.0)
        kept.add(loop.create_future())
        for seconds in range(1, 500):
            deadlines.limit(float(seconds))
        assert len(deadlines._by_limit) <= 64
        assert deadlines.limit(1000.0) is kept
        deadlines.close()

    asyncio.run(main())

"""The pool of an `AsyncClient` under any lives of its connections: nothing leaks, nobody is lost.

The pool, its links and its calls are the real ones; connections and their opening are pretended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.waits import turns
from trilane._core import HEAD
from trilane.client._aio import pool as pools
from trilane.client._aio.call import Call
from trilane.client._flow.preparing import How
from trilane.client._flow.request import Request
from trilane.client._flow.routes import Attempt, Route
from trilane.client.errors import ConnectionClosed, ConnectionRefused, Error, Full

from .fake import FakeConnection, FakeExchange
from .pretend import FOR_EVER, SPOKEN, STREAMS, limited

which = st.integers(0, 99)


class Exchange(FakeExchange):
    """A request on a pretended connection, which fails when that ends."""

    content_length = None

    def __init__(self, connection: Pretended, token: int) -> None:
        super().__init__(token)
        self.connection = connection
        self.failed = False
        self.complete = False

    def head(self, _timeout: float) -> int:
        if self.failed:
            raise ConnectionClosed("pretended")
        return 200

    def fail(self) -> None:
        if not self.complete and not self.failed:
            self.failed = True
            self.state = HEAD
            self.connection.outstanding -= 1

    def cancel(self) -> None:
        self.fail()
        if self.connection.version == "h1":
            self.connection.is_closing = True


class Pretended(FakeConnection):
    """A connection with a number of streams, whose peer does what the rules say."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self.version = version
        self.streams = 1 if version == "h1" else STREAMS
        self.refuses = False
        self.requests: list[Exchange] = []

    @property
    def capacity(self) -> int:
        return 0 if self.is_closing else self.streams - self.outstanding

    def is_alive(self) -> bool:
        return not self.is_closing

    def submit(self, *_: Any, **__: Any) -> Exchange:
        if self.is_closing:
            raise ConnectionClosed("pretended", retryable=True)
        if self.refuses or not self.capacity:
            raise Full("pretended")
        exchange = Exchange(self, len(self.requests))
        self.requests.append(exchange)
        self.outstanding += 1
        return exchange

    def close(self) -> None:
        for exchange in self.requests:
            exchange.fail()
        if not self.closed:
            super().close()


class Opener:
    """Attempts that wait for a rule."""

    def __init__(self) -> None:
        self.attempts: list[tuple[Callable[..., None], Attempt]] = []

    def open(self, attempt: Attempt, _timeout: object, done: Callable[..., None]) -> None:
        self.attempts.append((done, attempt))

    def close(self) -> None:
        self.attempts.clear()


class Lives(RuleBasedStateMachine):
    """Requests of one loop, moved on in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.opener = Opener()
        self.attempts = self.opener.attempts
        self.made: list[Pretended] = []
        self.calls: dict[asyncio.Task[int], Call] = {}
        self.held: list[Call] = []

    @initialize(most=st.integers(2, 5), most_of_one=st.integers(1, 4))
    def begin(self, most: int, most_of_one: int) -> None:
        policy = limited(most, most_of_one)
        self.pool = pools.Pool(self.loop, policy, lambda: None)  # type: ignore[arg-type, return-value]
        self.pool._opener = self.opener  # type: ignore[assignment]

    @rule(route=st.sampled_from(list(SPOKEN)), count=st.integers(1, 6))
    def ask(self, route: Route, count: int) -> None:
        for _ in range(count):
            call = Call(self.pool, Request("GET", "/", "x"), How(route, FOR_EVER), whole=False)
            self.calls[self.loop.create_task(self.pool.head(call))] = call

    @precondition(lambda self: self.attempts)
    @rule(number=which, fails=st.booleans())
    def open(self, number: int, fails: bool) -> None:
        done, attempt = self.attempts.pop(number % len(self.attempts))
        if fails:
            done(attempt, ConnectionRefused("pretended"))
            return
        self.made.append(Pretended(SPOKEN[attempt.route]))
        done(attempt, self.made[-1])

    @precondition(lambda self: self.unanswered())
    @rule(number=which)
    def answer(self, number: int) -> None:
        exchanges = self.unanswered()
        exchange = exchanges[number % len(exchanges)]
        exchange.state = HEAD
        exchange.connection.progress(exchange.token)

    @precondition(lambda self: self.held)
    @rule(number=which, read=st.booleans())
    def finish(self, number: int, read: bool) -> None:
        """Its content was read to the end, or was given up."""
        call = self.held.pop(number % len(self.held))
        exchange: Any = call.exchange
        if read and not exchange.failed:
            exchange.complete = True
            exchange.connection.outstanding -= 1
        self.pool.finish(call)

    @precondition(lambda self: self.calls)
    @rule(number=which)
    def cancel(self, number: int) -> None:
        list(self.calls)[number % len(self.calls)].cancel()

    @precondition(lambda self: self.open_ones())
    @rule(number=which, at_once=st.booleans())
    def end(self, number: int, at_once: bool) -> None:
        """The peer says goodbye, or is gone."""
        ones = self.open_ones()
        connection = ones[number % len(ones)]
        connection.is_closing = True
        if at_once:
            for exchange in connection.requests:
                exchange.fail()
        connection.progress(*range(len(connection.requests)))

    @precondition(lambda self: self.open_ones())
    @rule(number=which, refuses=st.booleans())
    def grant(self, number: int, refuses: bool) -> None:
        """QUIC grants streams in its own time."""
        ones = self.open_ones()
        connection = ones[number % len(ones)]
        if connection.version != "h1":
            connection.refuses = refuses
            connection.progress()

    def open_ones(self) -> list[Pretended]:
        return [connection for connection in self.made if not connection.closed]

    def unanswered(self) -> list[Exchange]:
        return [
            exchange
            for connection in self.open_ones()
            for exchange in connection.requests
            if not exchange.state and not exchange.failed
        ]

    @invariant()
    def everything_holds(self) -> None:
        self.loop.run_until_complete(turns(6))
        for task in [task for task in self.calls if task.done()]:
            call = self.calls.pop(task)
            if task.cancelled() or task.exception() is not None:
                assert task.cancelled() or isinstance(task.exception(), Error)
                assert call.entry is None
            else:
                self.held.append(call)
        self.limits_are_kept()
        self.everybody_waits_for_something()

    def limits_are_kept(self) -> None:
        router = self.pool.router
        assert len(router.entries) + len(self.attempts) <= router.policy.max_connections
        assert len(router._attempts) == len(self.attempts)
        for group in router._groups.values():
            assert group.count <= router.policy.max_per_origin
        # What is open is known to the router, else nobody would close it; what has ended is counted
        # only as long as somebody still reads what had come.
        known: dict[Any, int] = {e.connection.connection: e.leases for e in router.entries}
        still_open = set(self.open_ones())
        assert still_open <= known.keys()
        assert all(leases or connection in still_open for connection, leases in known.items())
        leases = sum(entry.leases for entry in router.entries)
        calls = [*self.calls.values(), *self.held]
        assert leases == sum(call.entry is not None for call in calls)

    def everybody_waits_for_something(self) -> None:
        queued = [call for call in self.calls.values() if call.ticket is not None]
        assert len(queued) == self.pool.queued == self.pool.router._waiting
        opening = self.pool._connecting.values()
        for call in self.calls.values():
            if call.ticket is not None or call in opening:
                continue
            assert call.link is not None
            assert not call.link.is_closed
            assert call.exchange is not None or call in call.link.parked
        for call in queued:
            links = [e.connection for e in self.pool.router.entries if e.route == call.route]
            roomy = [link for link in links if link.capacity > 0 and not link.is_closing]
            assert not roomy, "there is room, and somebody waits"

    def teardown(self) -> None:
        """Everything ends well, and then nobody waits and nothing is open."""
        try:
            while self.calls or self.held or self.attempts:
                while self.attempts:
                    self.open(0, fails=False)
                for connection in self.open_ones():
                    connection.refuses = False
                    connection.progress()
                for exchange in self.unanswered():
                    exchange.state = HEAD
                    exchange.connection.progress(exchange.token)
                while self.held:
                    self.finish(0, read=True)
                self.everything_holds()
            if hasattr(self, "pool"):
                self.pool.close()
                self.loop.run_until_complete(turns(6))
            assert self.open_ones() == []
        finally:
            for connection in self.open_ones():
                connection.close()
            self.loop.close()


TestLives = Lives.TestCase

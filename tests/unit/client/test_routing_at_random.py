"""The router under any lives of connections: it counts right, and nobody waits for nothing."""

from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Attempt, Entry, Group, Proxy, Route, Ticket
from trilane.client.errors import ClientClosed, ConnectionRefused, ConnectTimeout, Error

from .pretend import Bench, Pretended

PROXY = Proxy(Origin("http", "proxy.example", 3128))
# What each host speaks over TCP; the last two are one group, of a proxy that forwards.
ROUTES = {
    Route(Origin("https", "one.example", 443)): "h1",
    Route(Origin("https", "two.example", 443)): "h2",
    Route(Origin("https", "three.example", 443)): "h2",
    Route(Origin("http", "four.example", 80)): "h1",
    Route.to(Origin("http", "five.example", 80), PROXY): "h1",
    Route.to(Origin("http", "six.example", 80), PROXY): "h1",
}
STREAMS = 3
Item = TypeVar("Item")
which = st.integers(0, 99)


def pop(items: list[Item], number: int) -> Item:
    return items.pop(number % len(items))


class Lives(RuleBasedStateMachine):
    """Requests and attempts in the air, moved on in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.attempts: list[Attempt] = []
        self.sent: list[Entry[Pretended]] = []
        self.waiting: list[Ticket[Pretended]] = []
        self.made: set[Pretended] = set()
        self.closed: list[Pretended] = []

    @initialize(most=st.integers(2, 6), most_of_one=st.integers(1, 4), races=st.booleans())
    def begin(self, most: int, most_of_one: int, races: bool) -> None:
        self.bench = Bench(
            max_connections=most,
            max_per_origin=min(most_of_one, most),
            idle_s=20.0,
            race_unannounced=races,
        )

    @rule(seconds=st.sampled_from([0.01, 1.0, 8.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.now += seconds

    @rule(route=st.sampled_from(list(ROUTES)), count=st.integers(1, 6))
    def ask(self, route: Route, count: int) -> None:
        for _ in range(count):
            outcome = self.bench.ask(route)
            if isinstance(outcome, Ticket):
                self.waiting.append(outcome)
            else:
                self.take(outcome)

    @rule(route=st.sampled_from(list(ROUTES)), port=st.sampled_from([443, 8443]))
    def announce(self, route: Route, port: int) -> None:
        memory = self.bench.router.alternatives
        memory.learn(route.origin, f'h3=":{port}"', self.bench.now)

    @precondition(lambda self: self.attempts)
    @rule(number=which, wins=st.booleans(), gone=st.booleans())
    def connect(self, number: int, wins: bool, gone: bool) -> None:
        attempt = pop(self.attempts, number)
        version = ROUTES[attempt.route]
        if attempt.alone or (wins and "h3" in attempt.versions):
            version = "h3"
        entry = self.bench.opened(attempt, version, streams=STREAMS)
        self.made.add(entry.connection)
        self.sent.append(entry)
        if gone:
            self.give_up_what_was_given()

    @precondition(lambda self: self.attempts)
    @rule(number=which, error=st.sampled_from([ConnectionRefused("no"), ConnectTimeout("late")]))
    def fail(self, number: int, error: Error) -> None:
        attempt = pop(self.attempts, number)
        assert self.bench.router.failed(attempt, error, self.bench.now) == attempt.alone

    @precondition(lambda self: self.attempts)
    @rule(number=which)
    def abandon(self, number: int) -> None:
        attempt = pop(self.attempts, number)
        self.bench.router.abandoned(attempt, self.bench.now)
        # An interrupt may come when it has ended already.
        self.bench.router.abandoned(attempt, self.bench.now)

    @precondition(lambda self: self.sent)
    @rule(number=which, ends=st.booleans(), clean=st.booleans(), gone=st.booleans())
    def answer(self, number: int, ends: bool, clean: bool, gone: bool) -> None:
        entry = pop(self.sent, number)
        entry.connection.is_closing |= ends
        self.bench.done(entry, reusable=not entry.connection.is_closing and (entry.shared or clean))
        if gone:
            self.give_up_what_was_given()

    @precondition(lambda self: any(entry.shared for entry in self.sent))
    @rule(number=which)
    def refuse(self, number: int) -> None:
        """It had no room, whatever it said."""
        shared = [entry for entry in self.sent if entry.shared]
        entry = shared[number % len(shared)]
        self.sent.remove(entry)
        entry.connection.outstanding -= 1
        self.bench.router.full(entry, self.bench.now)

    @precondition(lambda self: self.sent)
    @rule(number=which, broken=st.booleans())
    def distrust(self, number: int, broken: bool) -> None:
        router, entry = self.bench.router, self.sent[number % len(self.sent)]
        (router.broken if broken else router.misdirected)(entry, self.bench.now)

    @precondition(lambda self: self.waiting)
    @rule(number=which)
    def give_up(self, number: int) -> None:
        self.bench.router.cancel(pop(self.waiting, number), self.bench.now)

    def give_up_what_was_given(self) -> None:
        """Whom it was handed to had given up in the same moment."""
        if self.bench.woken:
            ticket = self.bench.woken.pop(0)
            self.waiting.remove(ticket)
            if isinstance(ticket.outcome, Entry):
                ticket.outcome.connection.outstanding -= 1
            self.bench.router.cancel(ticket, self.bench.now)

    def take(self, outcome: object) -> None:
        """What a request was given."""
        if isinstance(outcome, Attempt):
            self.attempts.append(outcome)
        elif isinstance(outcome, Entry):
            self.sent.append(outcome)
        else:
            assert isinstance(outcome, Error)

    @invariant()
    def everything_holds(self) -> None:
        """In this order: what was handed over while a rule ran is the caller's from then on."""
        self.who_was_woken_goes_on()
        self.it_counts_right()
        self.no_connection_is_lost()
        self.who_waits_has_a_reason()

    def who_was_woken_goes_on(self) -> None:
        woken, self.bench.woken = self.bench.woken, []
        for ticket in woken:
            self.waiting.remove(ticket)
            self.take(ticket.outcome)
        assert all(ticket.outcome is None for ticket in self.waiting)

    def it_counts_right(self) -> None:
        router = self.bench.router
        assert router._attempts == set(self.attempts)
        assert router._waiting == len(self.waiting)
        assert len(router.entries) + len(router._attempts) <= router.policy.max_connections
        assert sum(entry.leases for entry in router.entries) == len(self.sent)
        for route, group in router._groups.items():
            entries = [entry for entry in router.entries if entry.route == route]
            standing = [entry for entry in entries if not entry.retired]
            assert group.count == len(standing) + group.opening + group.probing
            assert group.count <= router.policy.max_per_origin
            assert group.draining == len(entries) - len(standing)
            assert not any(entry.leases for entry in group.free)

    def no_connection_is_lost(self) -> None:
        self.closed += self.bench.discarded()
        assert len(self.closed) == len(set(self.closed))
        held = {entry.connection for entry in self.bench.router.entries}
        assert not held & set(self.closed)
        assert held | set(self.closed) == self.made

    def who_waits_has_a_reason(self) -> None:
        for group in self.bench.router._groups.values():
            if group.waiting:
                assert self.reason(group), f"{group.route.origin} has room"

    def reason(self, group: Group[Pretended]) -> bool:
        """Whether nothing can be done for who waits there."""
        router = self.bench.router
        if group.free:
            return False
        roomy = [entry for entry in group.shared if entry.connection.capacity > 0]
        if roomy:
            return all(entry.exhausted for entry in roomy)
        idle = any(not entry.leases for entry in router.entries)
        open_or_opening = len(router.entries) + len(router._attempts)
        return (
            group.opening > 0
            or group.count >= router.policy.max_per_origin
            or (open_or_opening >= router.policy.max_connections and not idle)
        )

    def teardown(self) -> None:
        """Everything ends well, and then nobody waits."""
        self.who_was_woken_goes_on()
        while self.attempts or self.sent:
            while self.attempts:
                self.connect(0, wins=False, gone=False)
                self.who_was_woken_goes_on()
            while self.sent:
                self.bench.done(self.sent.pop())
                self.who_was_woken_goes_on()
            self.it_counts_right()
        assert self.waiting == []
        self.bench.router.close()
        self.no_connection_is_lost()
        assert set(self.closed) == self.made
        with pytest.raises(ClientClosed):
            self.bench.ask()


TestLives = Lives.TestCase

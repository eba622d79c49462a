"""The router under random lives of connections: it counts right, and nobody waits for nothing."""

from __future__ import annotations

import random

import pytest

from trilane.client.errors import ConnectionRefused, ConnectTimeout, Error
from trilane.client.origins import Origin
from trilane.client.routing import Attempt, Entry, Route, Ticket

from .pretend import Bench, Pretended

ROUTES = [Route(Origin("https", f"{name}.example", 443)) for name in "abcd"]
SPEAKS = {"a": "h1", "b": "h2", "c": "h2", "d": "h1"}


class Life:
    """Requests and attempts in the air, moved on at random."""

    def __init__(self, seed: int, **policy: object) -> None:
        self.random = random.Random(seed)
        self.bench = Bench(**policy)
        self.attempts: list[Attempt] = []
        self.sent: list[Entry[Pretended]] = []
        self.waiting: list[Ticket[Pretended]] = []

    def take(self, outcome: object) -> None:
        """What a request was given."""
        if isinstance(outcome, Attempt):
            self.attempts.append(outcome)
        elif isinstance(outcome, Entry):
            self.sent.append(outcome)
        else:
            assert isinstance(outcome, Error)

    def step(self) -> None:
        """One event."""
        bench, choose = self.bench, self.random
        bench.now += choose.random()
        event = choose.randrange(10)
        if event < 4:
            outcome = bench.ask(choose.choice(ROUTES))
            if isinstance(outcome, Ticket):
                self.waiting.append(outcome)
            else:
                self.take(outcome)
        elif event < 6 and self.attempts:
            attempt = self.attempts.pop(choose.randrange(len(self.attempts)))
            self.finish(attempt)
        elif event < 9 and self.sent:
            entry = self.sent.pop(choose.randrange(len(self.sent)))
            if choose.random() < 0.1:
                entry.connection.is_closing = True
            reusable = not entry.connection.is_closing and (entry.shared or choose.random() < 0.8)
            bench.done(entry, reusable=reusable)
        elif self.waiting:
            ticket = self.waiting.pop(choose.randrange(len(self.waiting)))
            if isinstance(ticket.outcome, Entry):
                ticket.outcome.connection.outstanding -= 1
            if ticket in bench.woken:
                bench.woken.remove(ticket)
            bench.router.cancel(ticket, bench.now)
        self.wake()

    def finish(self, attempt: Attempt) -> None:
        bench, fate = self.bench, self.random.random()
        if fate < 0.7:
            version = SPEAKS[attempt.route.origin.host[0]]
            self.sent.append(bench.opened(attempt, version, streams=3))
        elif fate < 0.8:
            assert not bench.router.failed(attempt, ConnectionRefused("no"), bench.now)
        elif fate < 0.9:
            assert not bench.router.failed(attempt, ConnectTimeout("late"), bench.now)
        else:
            bench.router.abandoned(attempt, bench.now)

    def wake(self) -> None:
        """Requests that were woken go on."""
        for ticket in self.bench.woken:
            if ticket in self.waiting:
                self.waiting.remove(ticket)
                self.take(ticket.outcome)
        self.bench.woken.clear()

    def check(self) -> None:
        """What always holds."""
        router = self.bench.router
        policy = router.policy
        assert router._attempts == set(self.attempts)
        assert router._waiting == len(self.waiting)
        assert len(router) + len(router._attempts) <= policy.max_connections
        assert sum(entry.leases for entry in router.entries) == len(self.sent)
        for route in ROUTES:
            lane = router._lanes.get(route)
            if lane is None:
                continue
            entries = [entry for entry in router.entries if entry.route == route]
            standing = [entry for entry in entries if not entry.retired]
            assert lane.count == len(standing) + lane.opening <= policy.max_per_origin
            assert lane.draining == len(entries) - len(standing)
            for entry in lane.free:
                assert entry.leases == 0
            # Who waits has a reason.
            if lane.waiting:
                assert not lane.free
                assert not any(entry.connection.capacity > 0 for entry in lane.shared)
                idle = any(not entry.leases for entry in router.entries)
                at_limit = lane.count >= policy.max_per_origin or (
                    len(router) + len(router._attempts) >= policy.max_connections and not idle
                )
                assert lane.opening or at_limit


@pytest.mark.parametrize("seed", range(40))
def test_it_counts_right_and_nobody_waits_for_nothing(seed: int) -> None:
    life = Life(seed, max_connections=5 + seed % 4, max_per_origin=2 + seed % 3, idle_s=20.0)
    for _ in range(500):
        life.step()
        life.check()
    while life.attempts or life.sent:
        while life.attempts:
            life.finish(life.attempts.pop())
            life.wake()
        while life.sent:
            life.bench.done(life.sent.pop())
            life.wake()
        life.check()
    assert life.waiting == []

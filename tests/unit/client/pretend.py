"""A connection that does nothing, and a router with a clock, for tests of decisions alone."""

from __future__ import annotations

from typing import Any

from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Attempt, Entry, Policy, Route, Ticket
from trilane.client._flow.routing import Router
from trilane.client._flow.timeouts import Timeouts

HTTPS = Route(Origin("https", "example.org", 443))
HTTP = Route(Origin("http", "example.org", 80))
SPOKEN = {
    Route(Origin("https", "one.example", 443)): "h1",
    Route(Origin("https", "two.example", 443)): "h2",
    Route(Origin("http", "three.example", 80)): "h1",
}
"""Routes for tests at random, and what their hosts speak."""
STREAMS = 3
"""Of each connection in HTTP/2 there."""
FOR_EVER = Timeouts(None, None, None, None)


def limited(most: int, most_of_one: int) -> Policy:
    """A pool of so many connections, and of so many for each of the routes."""
    return Policy(
        versions=("h2", "h1"), max_connections=most, max_per_origin=min(most, most_of_one)
    )


class Pretended:
    """A connection with a number of streams."""

    facts: Any = None

    def __init__(self, version: str = "h1", streams: int = 100) -> None:
        self.version = version
        self.streams = 1 if version == "h1" else streams
        self.outstanding = 0
        self.is_closing = False
        self.is_silent = False

    def settings(self) -> dict[str, int]:
        return {"max_concurrent_streams": self.streams}

    @property
    def capacity(self) -> int:
        return 0 if self.is_closing else self.streams - self.outstanding


class Bench:
    """A router at a virtual time. Requests are what `ask` gives: served at once, or waiting."""

    def __init__(self, **policy: object) -> None:
        self.router: Router[Pretended] = Router(Policy(**policy))  # type: ignore[arg-type]
        self.now = 0.0
        self.woken: list[Ticket[Pretended]] = []

    def ask(self, route: Route = HTTPS) -> Entry[Pretended] | Attempt | Ticket[Pretended]:
        """What a request gets; an entry counts as a request sent on it."""
        outcome = self.router.acquire(route, self.now)
        if outcome is None:
            tickets: list[Ticket[Pretended]] = []
            ticket = self.router.wait(route, lambda: self._wake(tickets[0]))
            tickets.append(ticket)
            return ticket
        if isinstance(outcome, Entry):
            outcome.connection.outstanding += 1
        return outcome

    def _wake(self, ticket: Ticket[Pretended]) -> None:
        assert ticket.outcome is not None
        if isinstance(ticket.outcome, Entry):
            ticket.outcome.connection.outstanding += 1
        self.woken.append(ticket)

    def attempt(self, route: Route = HTTPS) -> Attempt:
        """A request that has to open a connection."""
        outcome = self.ask(route)
        assert isinstance(outcome, Attempt), outcome
        return outcome

    def entry(self, route: Route = HTTPS) -> Entry[Pretended]:
        """A request that finds a connection."""
        outcome = self.ask(route)
        assert isinstance(outcome, Entry), outcome
        return outcome

    def ticket(self, route: Route = HTTPS) -> Ticket[Pretended]:
        """A request that has to wait."""
        outcome = self.ask(route)
        assert isinstance(outcome, Ticket), outcome
        return outcome

    def opened(self, attempt: Attempt, version: str = "h1", streams: int = 100) -> Entry[Pretended]:
        """The attempt succeeds, and its request is sent."""
        connection = Pretended(version, streams)
        connection.outstanding = 1
        return self.router.opened(attempt, connection, self.now)

    def connected(
        self, route: Route = HTTPS, version: str = "h1", streams: int = 100
    ) -> Entry[Pretended]:
        """A request on a connection of its own making."""
        return self.opened(self.attempt(route), version, streams)

    def done(self, entry: Entry[Pretended], *, reusable: bool = True) -> None:
        """A request on the entry has its response."""
        entry.connection.outstanding -= 1
        self.router.release(entry, self.now, reusable=reusable)

    def discarded(self) -> list[Pretended]:
        """Take what is to be closed."""
        taken = list(self.router.discarded)
        self.router.discarded.clear()
        return taken

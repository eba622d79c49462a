"""Decisions of a pool: who gets which connection, who opens one, who waits."""

from __future__ import annotations

import pytest

from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Attempt, Entry, Policy, Proxy, Route
from trilane.client.errors import (
    ClientClosed,
    ConnectionRefused,
    ConnectTimeout,
    VersionUnavailable,
)

from .pretend import HTTP, HTTPS, Bench

PROXY = Proxy(Origin("http", "proxy.example", 3128), (("proxy-authorization", "x"),))


def test_fifty_callers_open_one_connection_when_it_speaks_http_2() -> None:
    bench = Bench()
    attempt = bench.attempt()
    tickets = [bench.ticket() for _ in range(49)]
    assert all(ticket.connecting for ticket in tickets)
    entry = bench.opened(attempt, "h2")
    assert bench.woken == tickets
    assert all(ticket.outcome is entry for ticket in tickets)
    assert entry.leases == 50
    assert len(bench.router.entries) == 1


def test_callers_open_their_own_once_it_is_known_to_speak_http_1() -> None:
    bench = Bench()
    attempt = bench.attempt()
    tickets = [bench.ticket() for _ in range(5)]
    bench.opened(attempt, "h1")
    assert all(isinstance(ticket.outcome, Attempt) for ticket in tickets)
    assert isinstance(bench.ask(), Attempt)


def test_http_2_streams_exhausted_open_one_other_connection() -> None:
    bench = Bench()
    first = bench.connected(version="h2", streams=2)
    assert bench.entry() is first
    attempt = bench.attempt()
    waiting = [bench.ticket() for _ in range(3)]
    bench.done(first)
    assert waiting[0].outcome is first
    second = bench.opened(attempt, "h2", 2)
    assert waiting[1].outcome is second
    assert isinstance(waiting[2].outcome, Attempt)


def test_a_connection_begins_with_what_another_allowed_and_with_one_request_at_least() -> None:
    for allowed, begins in ((2, 2), (0, 1)):
        bench = Bench()
        first = bench.connected(version="h2", streams=2)
        bench.entry()
        first.connection.streams = allowed
        assert bench.attempt().streams == begins


def test_http_1_connections_are_used_again_the_last_one_first() -> None:
    bench = Bench()
    first, second = bench.connected(HTTP), bench.connected(HTTP)
    assert not first.idle
    bench.done(first)
    bench.done(second)
    again = bench.entry(HTTP)
    assert again is second
    assert again.idle
    assert bench.entry(HTTP) is first


def test_a_connection_that_cannot_be_used_again_is_discarded() -> None:
    bench = Bench()
    entry = bench.connected(HTTP)
    bench.done(entry, reusable=False)
    assert bench.discarded() == [entry.connection]
    assert len(bench.router.entries) == 0
    assert bench.router._groups == {}


def test_a_connection_that_closes_finishes_what_it_has() -> None:
    bench = Bench()
    entry = bench.connected(version="h2")
    assert bench.entry() is entry
    entry.connection.is_closing = True
    replacement = bench.connected(version="h2")
    bench.done(entry)
    assert bench.discarded() == []
    bench.done(entry)
    assert bench.discarded() == [entry.connection]
    assert bench.entry() is replacement


def test_a_failed_attempt_fails_those_who_waited_for_it() -> None:
    bench = Bench()
    attempt = bench.attempt()
    tickets = [bench.ticket() for _ in range(3)]
    error = ConnectionRefused("nobody there")
    assert not bench.router.failed(attempt, error, 0.0)
    for ticket in tickets:
        assert isinstance(ticket.outcome, ConnectionRefused)
        assert ticket.outcome is not error
    assert bench.router._groups == {}


def test_a_timeout_of_one_is_not_a_timeout_of_all() -> None:
    bench = Bench()
    attempt = bench.attempt()
    tickets = [bench.ticket() for _ in range(3)]
    bench.router.failed(attempt, ConnectTimeout("too short"), 0.0)
    assert isinstance(tickets[0].outcome, Attempt)
    assert tickets[1].outcome is None
    assert tickets[1].connecting


def test_an_attempt_that_is_given_up_goes_to_the_next() -> None:
    bench = Bench()
    attempt = bench.attempt()
    first, second = bench.ticket(), bench.ticket()
    bench.router.abandoned(attempt, 0.0)
    bench.router.abandoned(attempt, 0.0)
    assert isinstance(first.outcome, Attempt)
    assert second.outcome is None


def test_a_ticket_that_is_cancelled_passes_on_what_it_was_given() -> None:
    bench = Bench(max_connections=1)
    entry = bench.connected(HTTP)
    first, second, third = (bench.ticket(HTTP) for _ in range(3))
    bench.router.cancel(second, 0.0)
    bench.done(entry)
    assert first.outcome is entry
    entry.connection.outstanding = 0
    bench.router.cancel(first, 0.0)
    assert third.outcome is entry
    assert second.outcome is None
    bench.done(entry)
    assert bench.entry(HTTP) is entry


def test_a_cancelled_ticket_passes_on_its_attempt() -> None:
    bench = Bench()
    attempt = bench.attempt()
    first, second = bench.ticket(), bench.ticket()
    bench.opened(attempt, "h1")
    assert isinstance(first.outcome, Attempt)
    bench.router.cancel(first, 0.0)
    assert isinstance(second.outcome, Attempt)


def test_those_who_came_first_are_served_first() -> None:
    bench = Bench(max_per_origin=1)
    entry = bench.connected(HTTP)
    waiting = [bench.ticket(HTTP) for _ in range(3)]
    assert not waiting[0].connecting
    for ticket in waiting:
        bench.done(entry)
        assert ticket.outcome is entry
        late = bench.ticket(HTTP)
        bench.router.cancel(late, 0.0)


def test_the_limit_of_an_origin() -> None:
    bench = Bench(max_per_origin=2)
    bench.connected(HTTP)
    bench.attempt(HTTP)
    bench.ticket(HTTP)
    bench.attempt(HTTPS)


def test_the_limit_of_the_pool_closes_what_lay_idle_longest() -> None:
    bench = Bench(max_connections=2)
    one, two, three = (Route(Origin("http", f"{n}.example", 80)) for n in "abc")
    first = bench.connected(one)
    second = bench.connected(two)
    bench.ticket(three)
    bench.now = 1.0
    bench.done(second)
    assert bench.discarded() == [second.connection]
    waiting = bench.woken.pop()
    assert isinstance(waiting.outcome, Attempt)
    third = bench.opened(waiting.outcome)
    bench.done(third)
    bench.now = 2.0
    bench.done(first)
    bench.connected(two)
    assert bench.discarded() == [third.connection]
    assert set(bench.router._groups) == {one, two}


def test_waiting_at_the_limit_of_the_pool_ends_when_a_connection_goes() -> None:
    bench = Bench(max_connections=1)
    entry = bench.connected(HTTP)
    waiting = bench.ticket(HTTPS)
    assert not waiting.connecting
    bench.done(entry, reusable=False)
    assert isinstance(waiting.outcome, Attempt)


def test_idle_connections_expire() -> None:
    bench = Bench(idle_s=10.0)
    old = bench.connected(HTTP)
    bench.done(old)
    bench.now = 9.0
    shared = bench.connected(version="h2")
    bench.done(shared)
    bench.now = 12.0
    assert isinstance(bench.ask(HTTP), Attempt)
    assert bench.discarded() == [old.connection]
    bench.now = 30.0
    assert isinstance(bench.ask(HTTPS), Attempt)
    assert bench.discarded() == [shared.connection]


def test_a_connection_in_use_does_not_expire() -> None:
    bench = Bench(idle_s=10.0)
    entry = bench.connected(version="h2")
    bench.now = 100.0
    assert bench.entry() is entry
    assert not entry.idle


def test_full_is_another_round() -> None:
    bench = Bench(max_per_origin=1)
    entry = bench.connected(version="h2", streams=2)
    late = bench.entry()
    late.connection.outstanding = 2
    assert not bench.router.full(late, 0.0)
    waiting = bench.ticket()
    bench.done(entry)
    assert waiting.outcome is entry


def test_full_in_spite_of_capacity_waits_until_a_request_ends() -> None:
    bench = Bench(max_per_origin=1)
    entry = bench.connected(version="h3")
    late = bench.entry()
    late.connection.outstanding -= 1
    assert not bench.router.full(late, 0.0)
    first, second = bench.ticket(), bench.ticket()
    bench.done(entry)
    assert first.outcome is entry
    assert second.outcome is entry


def test_full_where_nobody_is_is_a_matter_of_a_moment() -> None:
    bench = Bench()
    entry = bench.connected(version="h3")
    bench.done(entry)
    again = bench.entry()
    again.connection.outstanding -= 1
    assert bench.router.full(again, 0.0)
    assert bench.entry() is entry


def test_closing_ends_the_waiting_and_lets_responses_finish() -> None:
    bench = Bench(max_per_origin=1)
    busy, idle = bench.connected(HTTP), bench.connected(version="h2")
    bench.done(idle)
    waiting = bench.ticket(HTTP)
    bench.router.close()
    assert isinstance(waiting.outcome, ClientClosed)
    assert bench.discarded() == [idle.connection]
    bench.done(busy)
    assert bench.discarded() == [busy.connection]
    bench.router.close()
    assert bench.discarded() == []
    with pytest.raises(ClientClosed, match="make a new one"):
        bench.router.acquire(HTTP, 0.0)


def test_closing_at_once_discards_all() -> None:
    bench = Bench()
    busy = bench.connected(HTTP)
    bench.router.close(abort=True)
    assert bench.discarded() == [busy.connection]


def test_a_connection_that_opens_after_closing_is_used_once() -> None:
    bench = Bench()
    attempt = bench.attempt()
    bench.router.close()
    entry = bench.opened(attempt, "h2")
    bench.done(entry)
    assert bench.discarded() == [entry.connection]
    assert not bench.router.failed(attempt, ConnectionRefused("late"), 0.0)


@pytest.mark.parametrize(
    ("versions", "route", "tried"),
    [
        (("h3", "h2", "h1"), HTTPS, ("h2", "h1")),
        (("h1", "h2"), HTTPS, ("h1", "h2")),
        (("h3",), HTTPS, ("h3",)),
        (("h3", "h2", "h1"), HTTP, ("h1",)),
        (("h2",), HTTP, ("h2",)),
        (("h3", "h2"), HTTP, ("h2",)),
        (("h2", "h1"), Route(HTTPS.origin, PROXY), ("h2", "h1")),
        (("h3", "h1"), Route(HTTPS.origin, PROXY), ("h1",)),
        (("h2", "h1"), Route(HTTP.origin, PROXY), ("h1",)),
    ],
)
def test_which_versions_are_tried(
    versions: tuple[str, ...], route: Route, tried: tuple[str, ...]
) -> None:
    assert Bench(versions=versions).attempt(route).versions == tried


@pytest.mark.parametrize(
    ("versions", "route", "why"),
    [
        (("h3",), HTTP, "without TLS by h3"),
        (("h3",), Route(HTTPS.origin, PROXY), "through a proxy by h3"),
        (("h2",), Route(HTTP.origin, PROXY), "through a proxy by h2"),
    ],
)
def test_what_no_version_can_do_says_so(versions: tuple[str, ...], route: Route, why: str) -> None:
    bench = Bench(versions=versions)
    with pytest.raises(VersionUnavailable, match=why):
        bench.ask(route)
    assert bench.router._groups == {}


def test_through_a_proxy() -> None:
    bench = Bench()
    tunnelled = bench.attempt(Route(HTTPS.origin, PROXY))
    assert (tunnelled.host, tunnelled.port, tunnelled.scheme) == ("example.org", 443, "https")
    assert tunnelled.tunnel is PROXY
    forwarded = bench.attempt(Route(HTTP.origin, PROXY))
    assert (forwarded.host, forwarded.port, forwarded.scheme) == ("proxy.example", 3128, "http")
    assert forwarded.tunnel is None
    assert forwarded.server_name is None


def test_a_proxy_that_forwards_has_one_set_of_connections() -> None:
    bench = Bench()
    entry = bench.connected(Route.to(Origin("http", "a.example", 80), PROXY))
    bench.done(entry)
    assert bench.entry(Route.to(Origin("http", "b.example", 80), PROXY)) is entry
    assert Route.to(HTTPS.origin, PROXY) == Route(HTTPS.origin, PROXY)
    assert Route.to(HTTP.origin, None) == HTTP


@pytest.mark.parametrize(
    "policy",
    [
        {"versions": ()},
        {"versions": ("h2", "h2")},
        {"versions": ("http/1.1",)},
        {"max_connections": 0},
        {"max_per_origin": 0},
        {"idle_s": -1.0},
        {"idle_s": float("nan")},
        {"alternatives": "x"},
    ],
)
def test_a_policy_out_of_range(policy: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"versions=|at least 1|idle_timeout=|alternatives="):
        Policy(**policy).checked()  # type: ignore[arg-type]


def test_cleartext_http_1_never_waits_for_the_first() -> None:
    bench = Bench()
    assert all(isinstance(bench.ask(HTTP), Attempt) for _ in range(10))


def test_cleartext_http_2_does() -> None:
    bench = Bench(versions=("h2",))
    attempt = bench.attempt(HTTP)
    waiting = bench.ticket(HTTP)
    entry = bench.opened(attempt, "h2")
    assert waiting.outcome is entry


def test_many_origins_leave_nothing_behind() -> None:
    bench = Bench(max_connections=10)
    for number in range(1000):
        bench.now = float(number)
        route = Route(Origin("http", f"{number}.example", 80))
        entry = bench.ask(route)
        assert not isinstance(entry, Entry)
        assert isinstance(entry, Attempt)
        bench.done(bench.opened(entry))
    assert len(bench.router._groups) == len(bench.router.entries) == 10
    assert len(bench.discarded()) == 990

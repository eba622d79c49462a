"""Decisions about HTTP/3: when it is tried, how long, and what a failure means."""

from __future__ import annotations

import pytest

from trilane.client._flow.altsvc import FIRST_BACK_OFF_S
from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Attempt, Proxy, Route
from trilane.client.errors import ConnectionRefused, ConnectTimeout

from .pretend import HTTPS, Bench

ORIGIN = HTTPS.origin


def test_an_announced_alternative_on_the_same_port_is_raced() -> None:
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    attempt = bench.attempt()
    assert attempt.versions == ("h3", "h2", "h1")
    assert attempt.limit_s is None
    assert not attempt.alone
    bench.ticket()
    entry = bench.opened(attempt, "h3")
    assert entry.alternative is not None
    assert entry.leases == 2


def test_a_race_that_http_3_lost_is_remembered() -> None:
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    entry = bench.opened(bench.attempt(), "h2")
    assert entry.alternative is None
    assert bench.entry() is entry
    bench.now = FIRST_BACK_OFF_S
    assert bench.attempt().versions == ("h3",)


def test_beside_a_standing_connection_one_request_tries_it_and_others_go_on() -> None:
    bench = Bench()
    attempt = bench.attempt()
    bench.now = 0.4
    standing = bench.opened(attempt, "h2")
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', bench.now)
    probe = bench.attempt()
    assert probe.versions == ("h3",)
    assert probe.alone
    # Twice what TCP and TLS took.
    assert probe.limit_s == pytest.approx(0.8)
    assert [bench.entry() for _ in range(10)] == [standing] * 10
    better = bench.opened(probe, "h3")
    assert bench.entry() is better
    bench.done(better)
    assert bench.entry() is better


def test_a_standing_connection_takes_over_where_the_alternative_fails() -> None:
    bench = Bench()
    standing = bench.connected(version="h2")
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"; ma=86400', 0.0)
    assert bench.router.failed(bench.attempt(), ConnectTimeout("silence"), 1.0)
    assert bench.entry() is standing
    bench.now = 1.0 + FIRST_BACK_OFF_S
    again = bench.attempt()
    assert again.alone
    bench.router.failed(again, ConnectTimeout("silence"), bench.now)
    bench.now += FIRST_BACK_OFF_S
    assert bench.entry() is standing


def test_an_alternative_elsewhere_is_tried_alone_and_then_tcp() -> None:
    bench = Bench(alternatives="any")
    bench.router.alternatives.learn(ORIGIN, 'h3="alt.example:8443"', 0.0)
    attempt = bench.attempt()
    assert (attempt.host, attempt.port) == ("alt.example", 8443)
    assert attempt.server_name == "example.org"
    assert attempt.versions == ("h3",)
    assert attempt.limit_s == 1.0
    # The next request does not wait for it.
    beside = bench.attempt()
    assert beside.versions == ("h2", "h1")
    assert beside.host == "example.org"
    waiting = bench.ticket()
    assert bench.router.failed(attempt, ConnectionRefused("no"), 0.0)
    assert waiting.outcome is None
    assert bench.opened(beside, "h2") is waiting.outcome


def test_with_http_3_alone_the_origin_itself_is_asked() -> None:
    bench = Bench(versions=("h3",))
    attempt = bench.attempt()
    assert (attempt.host, attempt.port, attempt.versions) == ("example.org", 443, ("h3",))
    bench.ticket()
    assert not bench.router.failed(attempt, ConnectionRefused("no"), 0.0)
    bench.router.alternatives.learn(ORIGIN, 'h3=":444"', 0.0)
    attempt = bench.attempt()
    assert (attempt.port, attempt.server_name) == (444, None)


def test_racing_without_an_announcement() -> None:
    bench = Bench(race_unannounced=True)
    attempt = bench.attempt()
    assert attempt.versions == ("h3", "h2", "h1")
    entry = bench.opened(attempt, "h2")
    bench.done(entry, reusable=False)
    assert bench.attempt().versions == ("h2", "h1")


def test_no_udp_through_proxies_and_unix_sockets() -> None:
    proxy = Proxy(Origin("http", "proxy.example", 3128))
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    assert bench.attempt(Route(ORIGIN, proxy)).versions == ("h2", "h1")
    bench = Bench(unix="/run/a.sock")
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    attempt = bench.attempt()
    assert attempt.versions == ("h2", "h1")
    assert attempt.unix == "/run/a.sock"


def test_a_connection_that_dies_under_a_request_leaves_its_alternative_alone() -> None:
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    entry = bench.opened(bench.attempt(), "h3")
    bench.router.broken(entry, 0.0)
    bench.done(entry, reusable=False)
    assert bench.attempt().versions == ("h2", "h1")


def test_the_limits_hold_for_tries_too() -> None:
    bench = Bench(max_per_origin=1)
    standing = bench.connected(version="h2")
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    assert bench.entry() is standing


def test_streams_of_http_3_exhausted_fall_back_to_what_stands() -> None:
    bench = Bench()
    standing = bench.connected(version="h2")
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    better = bench.opened(bench.attempt(), "h3", streams=2)
    assert bench.entry() is better
    assert bench.entry() is standing
    assert not isinstance(bench.ask(), Attempt)


def test_a_misdirected_connection_is_not_used_again() -> None:
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    entry = bench.opened(bench.attempt(), "h3")
    bench.router.misdirected(entry, 0.0)
    bench.router.misdirected(entry, 0.0)
    assert bench.attempt().versions == ("h2", "h1")
    bench.done(entry)
    assert bench.discarded() == [entry.connection]


def test_what_was_misdirected_is_not_raced_again_at_once() -> None:
    bench = Bench(race_unannounced=True)
    entry = bench.opened(bench.attempt(), "h3")
    bench.router.misdirected(entry, bench.now)
    assert bench.attempt().versions == ("h2", "h1")


def test_what_was_misdirected_is_not_used_though_it_is_announced_again() -> None:
    bench = Bench()
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"', 0.0)
    bench.router.misdirected(bench.opened(bench.attempt(), "h3"), 0.0)
    bench.router.alternatives.learn(ORIGIN, 'h3=":443"; ma=3600', 0.0)
    assert bench.attempt().versions == ("h2", "h1")

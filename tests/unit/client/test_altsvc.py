"""Alternative services: the field's grammar and the memory."""

from __future__ import annotations

import pytest

from trilane.client._flow import altsvc
from trilane.client._flow.altsvc import Alternative, Memory, parse
from trilane.client._flow.origins import Origin

HERE = Origin("https", "example.org", 443)
DAY = altsvc.DAY_S


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('h3=":443"', [Alternative("h3", "example.org", 443)]),
        ('h3=":443"; ma=60', [Alternative("h3", "example.org", 443, 60.0)]),
        ('h3=":443";ma="60";persist=1', [Alternative("h3", "example.org", 443, 60.0, True)]),
        (
            'h3="alt.example:8443"; ma=1, h2=":444"',
            [Alternative("h3", "alt.example", 8443, 1.0), Alternative("h2", "example.org", 444)],
        ),
        ('h3="[::1]:1"', [Alternative("h3", "::1", 1)]),
        ('w%3Dx%3Ay#z=":1"', [Alternative("w=x:y#z", "example.org", 1)]),
        ('h3=":443"; unknown="a,b;c"; ma=5', [Alternative("h3", "example.org", 443, 5.0)]),
        (', ,h3=":1",', [Alternative("h3", "example.org", 1)]),
        ('h3=":1"; ma=0', []),
        ('h3=":1"; ma=-1', []),
        ('h3=":1"; ma=x', []),
        ('h3=""', []),
        ('h3=":0"', []),
        ('h3=":65536"', []),
        ('h3=":x"', []),
        ("h3=:443", []),
        ("h3", []),
        ("", []),
        ('"', []),
        ('broken, h3=":2"', [Alternative("h3", "example.org", 2)]),
        ('h3=":1" trash, h3=":2"', [Alternative("h3", "example.org", 2)]),
        ("clear", None),
        (" clear ", None),
    ],
)
def test_the_field(value: str, found: list[Alternative] | None) -> None:
    assert parse(value, HERE) == found


def test_an_endless_field_is_cut() -> None:
    found = parse(",".join(f'h3=":{port}"' for port in range(1, 60000)), HERE)
    assert found is not None
    assert len(found) == altsvc.MOST_ALTERNATIVES
    assert parse("h3=" * 100_000, HERE) == []
    assert parse(";" * 100_000, HERE) == []


def test_an_alternative_on_an_ipv6_origin_without_a_host() -> None:
    origin = Origin("https", "::1", 443)
    assert parse('h3=":444"', origin) == [Alternative("h3", "::1", 444)]


def test_it_is_fresh_for_its_time() -> None:
    memory = Memory()
    memory.learn(HERE, 'h3=":443"; ma=60', 100.0)
    assert memory.best(HERE, 159.0) == Alternative("h3", "example.org", 443, 60.0)
    assert memory.best(HERE, 160.0) is None


def test_age_is_time_gone_already() -> None:
    memory = Memory()
    memory.learn(HERE, 'h3=":443"; ma=60', 100.0, age_s=50.0)
    assert memory.best(HERE, 109.0) is not None
    assert memory.best(HERE, 110.0) is None


def test_a_field_that_repeats_keeps_it_fresh() -> None:
    memory = Memory()
    for now in range(0, 1000, 10):
        memory.learn(HERE, 'h3=":443"; ma=90', float(now))
        assert memory.best(HERE, float(now)) is not None


def test_clear_and_replacement() -> None:
    memory = Memory()
    memory.learn(HERE, 'h3=":443"', 0.0)
    memory.learn(HERE, 'h3=":444"', 0.0)
    found = memory.best(HERE, 0.0)
    assert found is not None
    assert found.port == 444
    memory.learn(HERE, "clear", 0.0)
    assert memory.best(HERE, 0.0) is None
    memory.learn(HERE, 'h3=":444"', 0.0)
    assert memory.best(HERE, 0.0) is not None


def test_other_protocols_and_cleartext_are_passed_over() -> None:
    memory = Memory()
    memory.learn(HERE, 'h2=":443", h3-29=":443"', 0.0)
    assert memory.best(HERE, 0.0) is None
    plain = Origin("http", "example.org", 80)
    memory.learn(plain, 'h3=":443"', 0.0)
    assert memory.best(plain, 0.0) is None


@pytest.mark.parametrize(("scope", "port"), [("same-host", 2), ("any", 1), ("off", None)])
def test_which_hosts_are_used_is_a_policy(scope: altsvc.Scope, port: int | None) -> None:
    memory = Memory(scope)
    memory.learn(HERE, 'h3="other.example:1", h3=":2"', 0.0)
    found = memory.best(HERE, 0.0)
    assert (found.port if found else None) == port


def test_what_is_broken_is_left_alone_longer_each_time() -> None:
    memory = Memory()
    memory.learn(HERE, f'h3=":443"; ma={10**9}', 0.0)
    found = memory.best(HERE, 0.0)
    assert found is not None
    now, pauses = 0.0, []
    for _ in range(14):
        memory.broken(HERE, found, now)
        assert memory.is_broken(HERE, found, now)
        until = now
        while memory.best(HERE, until) is None:
            until += 150.0
        pauses.append(until - now)
        now = until
    assert pauses[:4] == [300.0, 600.0, 1200.0, 2400.0]
    assert pauses[-1] == 2 * DAY
    memory.works(HERE, found)
    memory.broken(HERE, found, now)
    assert memory.best(HERE, now + 300.0) == found


def test_the_next_alternative_stands_in_for_a_broken_one() -> None:
    memory = Memory()
    memory.learn(HERE, 'h3=":1", h3=":2"', 0.0)
    first = memory.best(HERE, 0.0)
    assert first is not None
    memory.broken(HERE, first, 0.0)
    second = memory.best(HERE, 0.0)
    assert second is not None
    assert (first.port, second.port) == (1, 2)
    memory.misdirected(HERE, second, 0.0)
    assert memory.best(HERE, 0.0) is None
    assert memory.best(HERE, 301.0) == first


def test_a_change_of_the_network_keeps_what_persists() -> None:
    memory = Memory()
    memory.learn(HERE, 'h3=":1", h3=":2"; persist=1', 0.0)
    lasting = Alternative("h3", "example.org", 2, persist=True)
    memory.broken(HERE, lasting, 0.0)
    memory.network_changed()
    assert memory.best(HERE, 0.0) == lasting


def test_the_memory_is_bounded() -> None:
    memory = Memory()
    for port in range(1, altsvc.MOST_ORIGINS + 10):
        memory.learn(Origin("https", "example.org", port), 'h3=":443"', 0.0)
        memory.broken(Origin("https", "other.example", port), Alternative("h3", "x", 1), 0.0)
    assert len(memory._known) == altsvc.MOST_ORIGINS
    assert memory.best(Origin("https", "example.org", 1), 0.0) is None
    assert memory.best(Origin("https", "example.org", altsvc.MOST_ORIGINS + 9), 0.0) is not None
    for port in range(1, 100):
        memory.broken(HERE, Alternative("h3", "example.org", port), 0.0)
    assert len(memory._known[HERE].broken) == altsvc.MOST_ALTERNATIVES

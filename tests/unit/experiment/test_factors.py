"""Comparisons by factor: which arms are set beside each other."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from trilane.lab.experiment.factors import COMPARISON, BadFactor, ByFactor
from trilane.lab.experiment.vocabulary import FACTORS
from trilane.lab.experiment.workload import ArmOptions, ArmSpec, Workload

WORKLOAD = Workload(count=100, in_flight=100)
Arms = list[ArmSpec]


def arms(*names: str) -> Arms:
    """Of `client-version-strategy`."""
    return [WORKLOAD.arm(*name.split("-")) for name in names]


def pairs(text: str, given: Arms, baseline: str = "") -> list[str]:
    return [f"{arm} ÷ {to}" for arm, to in ByFactor.parse(text).pairs(given, baseline)]


def test_each_client_is_compared_with_itself_over_its_versions() -> None:
    given = arms(
        "httpx-h1-serial", "go-h1-serial", "httpx-h2-serial", "go-h3-serial", "go-h2-serial"
    )
    assert pairs("version within client", given) == [
        "httpx-h2-serial ÷ httpx-h1-serial",
        "go-h3-serial ÷ go-h1-serial",
        "go-h2-serial ÷ go-h1-serial",
        "go-h2-serial ÷ go-h3-serial",
    ]


def test_what_is_not_asked_about_is_the_same() -> None:
    given = arms("httpx-h1-serial", "httpx-h2-multiplexed", "httpx-h2-chunks")
    assert pairs("version within client", given) == []
    assert pairs("strategy within client and version", given) == [
        "httpx-h2-chunks ÷ httpx-h2-multiplexed"
    ]
    assert pairs("version and strategy within client", given) == [
        "httpx-h2-multiplexed ÷ httpx-h1-serial",
        "httpx-h2-chunks ÷ httpx-h1-serial",
        "httpx-h2-chunks ÷ httpx-h2-multiplexed",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"network": "rtt=40ms"},
        {"gzip": True},
        {"headers": (("accept", "*/*"),)},
        {"server": "kestrel"},
        {"session": False},
        {"tls": False},
        {"in_flight": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_other_difference_is_taken_for_that_of_the_version(change: ArmOptions) -> None:
    one = WORKLOAD.arm("httpx", "h1", "asyncio")
    other = WORKLOAD.arm("httpx", "h2", "asyncio", **change)
    assert pairs("version within client", [one, WORKLOAD.arm("httpx", "h2", "asyncio")])
    assert pairs("version within client", [one, other]) == []


def test_cleartext_is_compared_with_cleartext() -> None:
    given = [
        WORKLOAD.arm("engine", "h1", "load", name="tls"),
        WORKLOAD.arm("engine", "h1", "load", name="plain", tls=False),
        WORKLOAD.arm("engine", "h2c", "load", name="h2c"),
    ]
    assert pairs("version within client", given) == ["h2c ÷ plain"]


def test_connections_and_streams_are_how_a_version_keeps_its_requests_in_flight() -> None:
    many = WORKLOAD.arm("engine", "h1", "load", name="h1", connections=100)
    one = WORKLOAD.arm("engine", "h2", "load", name="one", connections=1)
    two = WORKLOAD.arm("engine", "h2", "load", name="two", connections=2)
    assert pairs("version within client", [many, one, two]) == ["one ÷ h1", "two ÷ h1"]
    assert pairs("strategy within version", [many, one, two]) == ["two ÷ one"]


def test_of_many_arms_each_is_compared_with_one() -> None:
    clients = ("requests", "httpx", "go", "node", "primp")
    given = arms(*(f"{client}-h1-serial" for client in clients))
    assert pairs("client within version", given) == [
        f"{client}-h1-serial ÷ requests-h1-serial" for client in clients[1:]
    ]
    against = pairs("client within version", given, "go-h1-serial")
    assert len(against) == 4
    assert all(row.endswith(" ÷ go-h1-serial") for row in against)
    assert len(pairs("client within version", given[:4])) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version", "has not the form FACTOR within FACTOR"),
        ("version within", "has not the form"),
        ("version within client within server", "has not the form"),
        ("verson within client", "'verson' is not a factor: did you mean version?"),
        ("version within library", "'library' is not a factor: choose from version, client"),
        ("version within version", "'version' stands twice"),
        ("version within client and client", "'client' stands twice"),
    ],
)
def test_what_names_no_comparison_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadFactor, match=re.escape(said)):
        ByFactor.parse(text)


def test_the_schema_takes_what_the_lab_takes() -> None:
    for varied, kept, more in permutations(FACTORS, 3):
        for text in (f"{varied} within {kept}", f"{varied} and {more} within {kept}"):
            assert re.search(COMPARISON, text)
            assert ByFactor.parse(text).kept == (kept,)
    assert not re.search(COMPARISON, "version")
    assert not re.search(COMPARISON, "version within library")

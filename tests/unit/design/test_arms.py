from __future__ import annotations

import pytest

from trilane.lab.arms import BadArms, arms_for


def shape(scheme: str, **options: object) -> dict[str, tuple[int, int]]:
    arms = arms_for(scheme, **options)  # type: ignore[arg-type]
    return {arm.name: (arm.connections or 0, arm.streams or 0) for arm in arms}


def test_https_races_three_versions_with_64_in_flight() -> None:
    assert shape("https") == {"h1": (64, 1), "h2": (4, 16), "h3": (4, 16)}


def test_http_races_the_two_cleartext_versions() -> None:
    assert shape("http") == {"h1": (64, 1), "h2c": (4, 16)}


@pytest.mark.parametrize(
    ("options", "h2"),
    [
        ({"in_flight": 100}, (4, 25)),
        ({"in_flight": 6}, (3, 2)),
        ({"in_flight": 1}, (1, 1)),
        ({"in_flight": 7}, (1, 7)),
        ({"connections": 8}, (8, 8)),
        ({"streams": 32}, (2, 32)),
        ({"connections": 2, "streams": 50}, (2, 50)),
        ({"connections": 2, "streams": 50, "in_flight": 100}, (2, 50)),
    ],
)
def test_every_arm_keeps_the_same_number_in_flight(
    options: dict[str, int], h2: tuple[int, int]
) -> None:
    made = shape("https", **options)
    assert made["h2"] == h2
    assert {connections * streams for connections, streams in made.values()} == {h2[0] * h2[1]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connections": 7}, "try --in-flight 63"),
        ({"streams": 100}, "try --in-flight 100"),
        ({"connections": 2, "streams": 3, "in_flight": 7}, "leave one of the three out"),
        ({"in_flight": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_split_says_what_to_type(options: dict[str, int], message: str) -> None:
    with pytest.raises(BadArms, match=message):
        arms_for("https", **options)  # type: ignore[arg-type]


def test_a_version_needs_its_scheme() -> None:
    with pytest.raises(BadArms, match="--h3 needs an https:// URL"):
        arms_for("http", versions=["h3"])
    with pytest.raises(BadArms, match="--h2c needs an http:// URL"):
        arms_for("https", versions=["h2c"])
    with pytest.raises(BadArms, match="not ftp://"):
        arms_for("ftp")


def test_versions_narrow_the_field() -> None:
    assert list(shape("https", versions=["h3", "h2"])) == ["h2", "h3"]

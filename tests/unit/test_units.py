from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane import quantity
from trilane.cli import units


def test_what_may_be_several_has_commas() -> None:
    assert units.listed(["p99>1.1, rate<0.9", "h2:cpu>+5%", ""]) == [
        "p99>1.1",
        "rate<0.9",
        "h2:cpu>+5%",
        "",
    ]
    assert units.listed(None) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("2", 2), ("500ms", 0.5), ("1.5m", 90), ("250us", 0.00025), ("1h", 3600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.duration("-d", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0s", "-1s", "2 days", "1e3", "99999h", "nan", "s", "٣s"])
def test_what_is_no_duration_says_what_would_be(text: str) -> None:
    with pytest.raises(units.Usage, match="-d takes a time such as 500ms"):
        units.duration("-d", text)


def test_a_warm_up_may_be_nothing() -> None:
    assert units.duration("--warmup", "0s", zero=True) == 0


@pytest.mark.parametrize(("text", "value"), [("64", 64), ("10k", 10_000), ("1.5k", 1_500)])
def test_counts(text: str, value: int) -> None:
    assert units.count("-c", text) == value


@pytest.mark.parametrize("text", ["0", "1.5", "-3", "many", "9m"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(units.Usage, match="whole number from 1 to 1m"):
        units.count("-c", text)


def test_shares() -> None:
    assert units.share("--margin", "5%") == 0.05
    assert units.share("--margin", "0.1") == 0.1
    for text in ("0%", "100%", "five"):
        with pytest.raises(units.Usage, match="a share such as 5%"):
            units.share("--margin", text)


def test_seeds() -> None:
    assert units.seed("--seed", "0") == 0
    with pytest.raises(units.Usage):
        units.seed("--seed", "-1")


SECONDS = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    **{unit: Fraction(seconds) for unit, seconds in (("s", 1), ("", 1), ("m", 60), ("h", 3600))},
}


@given(st.integers(1, 10**6), st.integers(0, 3), st.sampled_from(list(SECONDS)))
def test_every_way_to_write_a_time_means_its_product(digits: int, places: int, unit: str) -> None:
    exact = Fraction(digits, 10**places) * SECONDS[unit]
    text = f"{digits / 10**places:.{places}f}{unit}"
    if exact > 24 * 3600:
        with pytest.raises(units.Usage):
            units.duration("-d", text)
    else:
        assert units.duration("-d", text) == pytest.approx(float(exact), abs=1e-12)


@given(st.text() | st.from_regex(r"[\d.]*[a-zµ%]{0,2}"))
def test_any_text_is_a_number_or_wrong_usage(text: str) -> None:
    for parse in (units.duration, units.count, units.share, units.seed):
        with contextlib.suppress(units.Usage):
            assert parse("--flag", text) >= 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (12.4, "12 s"),
        (59.6, "1 min 00 s"),
        (96, "1 min 36 s"),
        (11_100, "3 h 05 min"),
    ],
)
def test_time_left_has_units(seconds: float, text: str) -> None:
    assert quantity.time_left(seconds) == text


def test_one_request_of_a_sweep_is_one() -> None:
    assert quantity.swept_text(1, "in_flight", "requests in flight") == "1 request in flight"
    assert quantity.swept_text(16, "in_flight", "requests in flight") == "16 requests in flight"
    assert quantity.swept_text(1, "count", "requests") == "1 request"

"""A family of comparisons, judged: what is named, and what is left open."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilane.lab.analysis import family, stats
from trilane.lab.analysis.family import Case
from trilane.lab.model.comparison import Ratio


def floats(*values: float) -> stats.Floats:
    return np.array(values, dtype=np.float64)


def case(
    samples: stats.Floats,
    repeated: stats.Floats | None = None,
    *,
    valid: bool = True,
    decides: bool = True,
) -> Case:
    row = Ratio(measure="requests_per_s", arm="h2", to="h1")
    return Case(row, samples, floats() if repeated is None else repeated, valid, decides)


def judge(
    samples: stats.Floats, repeated: stats.Floats | None = None, *, valid: bool = True
) -> Ratio:
    [found] = family.judge([case(samples, repeated, valid=valid)], margin=0.05, seed=1)
    assert found.ratio is not None
    return found


STEADY = floats(0.3, 0.31, 0.29, 0.305, 0.295, 0.302, 0.299)


def test_a_clear_difference_is_named() -> None:
    assert judge(STEADY).finding == "higher"
    assert judge(-STEADY).finding == "lower"
    assert judge(STEADY).ratio == pytest.approx(math.exp(0.3), rel=0.01)


def test_a_difference_that_the_arms_have_to_themselves_is_not_named() -> None:
    found = judge(STEADY, floats(0.31, 0.32, 0.33, 0.30))
    assert (found.finding, found.vetoed) == ("undecided", True)
    assert found.aa == pytest.approx(math.exp(0.315))
    # On the other side of 1 as well: order alone would make such a difference.
    assert judge(STEADY, floats(-0.31, -0.32, -0.33, -0.30)).vetoed


def test_noise_around_the_centre_of_aa_vetoes_nothing() -> None:
    wide = floats(0.6, -0.6, 0.5, -0.5, 0.01)
    found = judge(STEADY, wide)
    assert (found.finding, found.vetoed) == ("higher", False)


def test_one_slow_run_of_an_arm_beside_itself_vetoes_nothing() -> None:
    slow = floats(0.001, -0.002, 0.002, 0.28, -0.001)
    assert judge(STEADY * 0.1, slow).finding == "higher"


def test_a_few_ratios_of_arms_to_themselves_have_no_centre() -> None:
    found = judge(STEADY, floats(0.5, 0.5, 0.5))
    assert (found.finding, found.aa) == ("higher", None)


def test_an_invalid_run_forbids_any_finding() -> None:
    assert judge(STEADY, valid=False).finding == "invalid"


def test_no_difference_is_found_and_not_only_not_denied() -> None:
    assert judge(STEADY - 0.3).finding == "no_difference"
    assert judge(floats(0.3, -0.3, 0.2, -0.2, 0.1, -0.1, 0.05)).finding == "undecided"


def test_no_difference_is_not_claimed_beside_an_interval_that_leaves_the_margin() -> None:
    """FINDINGS T11."""
    found = judge(floats(0.072, 0.051, 0.053, -0.009, 0.002, -0.003, -0.031, 0.008, 0.046, 0.026))
    assert found.p_tost is not None
    assert found.p_tost <= stats.ALPHA
    assert found.high is not None
    assert found.high > 1.05
    assert found.finding == "undecided"


def test_more_blocks_are_those_that_a_planned_test_needs() -> None:
    chance = np.random.default_rng(3)
    found = judge(chance.normal(0.02, 0.04, 10))
    assert found.finding == "undecided"
    more = found.more_blocks
    assert more is not None
    assert found.ratio is not None
    # With so many more blocks like these, about four of five comparisons are decided: fewer than 24
    # of forty would be once in three hundred times, and the seed is fixed.
    spread, centre = 0.04, math.log(found.ratio)
    decided = 0
    for _ in range(40):
        samples = chance.normal(centre, spread, 10 + more)
        decided += judge(samples).finding != "undecided"
    assert decided >= 24


def test_more_blocks_grow_with_the_noise_and_the_family() -> None:
    def more(spread: float, share: float) -> int:
        interval = stats.Interval(0.02, 0.02 - spread, 0.02 + spread)
        return family.more_blocks(interval, 10, 0.05, share)

    assert more(0.03, 1) < more(0.06, 1) < more(0.06, 1 / 3)
    # A tenth of the way to the margin, equality takes fewer than a difference would.
    assert family.more_blocks(stats.Interval(0.005, -0.055, 0.065), 10, 0.05, 1) < 200
    # Whatever the noise, so many at least.
    assert family.more_blocks(stats.Interval(0.5, 0.49, 0.51), 3, 0.05, 1) == 3


def test_what_is_decided_or_vetoed_needs_no_more_blocks() -> None:
    assert judge(STEADY).more_blocks is None
    assert judge(STEADY, floats(0.31, 0.32, 0.33, 0.30)).more_blocks is None


def test_six_blocks_decide_many_large_differences_and_never_a_small_one() -> None:
    chance = np.random.default_rng(1)
    small = [case(each) for each in chance.normal(0.01, 0.02, (11, 6))]
    found = family.judge([case(STEADY[:6]), *small], margin=0.05, seed=1)
    assert [one.finding for one in found].count("higher") == 1
    assert found[0].finding == "higher"
    five = family.judge([case(STEADY[:5])], margin=0.05, seed=1)[0]
    assert five.ratio is not None
    assert five.finding == "undecided"


def test_the_adjusted_p_is_never_below_that_of_the_rank_test() -> None:
    chance = np.random.default_rng(5)
    for _ in range(40):
        cases = [case(each) for each in chance.normal(0.02, 0.03, (3, 8))]
        for one in family.judge(cases, margin=0.05, seed=1):
            assert one.p is not None
            assert one.p_holm is not None
            assert one.p_holm >= one.p


def test_comparisons_without_enough_blocks_are_left_open() -> None:
    nan = float("nan")
    empty, one = np.full(7, nan), floats(0.3, *[nan] * 6)
    found = family.judge([case(empty), case(STEADY), case(one)], margin=0.05, seed=1)
    assert (found[0], found[2]) == (case(empty).row, case(one).row)
    assert found[1].finding == "higher"
    assert found[1].p_holm == found[1].p
    assert family.judge([], margin=0.05, seed=1) == []
    assert family.judge([case(empty)], margin=0.05, seed=1) == [case(empty).row]


def test_blocks_that_one_measure_lacks_are_there_for_the_others() -> None:
    nan = float("nan")
    found = family.judge(
        [case(floats(*STEADY, 0.3)), case(floats(*STEADY, nan), decides=False)],
        margin=0.05,
        seed=1,
    )
    assert [(one.blocks, one.finding) for one in found] == [(8, "higher"), (7, "higher")]


def test_identical_arms_are_told_apart_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(7)
    races = 300
    wrong = 0
    for _ in range(races):
        base, *others = rng.normal(0, 0.02, (3, 7))
        cases = [case(other - base, rng.normal(0, 0.03, 5)) for other in others]
        found = family.judge(cases, margin=0.05, seed=1)
        wrong += any(one.finding in ("higher", "lower") for one in found)
    # Binomial(300, 0.05) exceeds 24 with probability 0.02; the seed makes the count a constant.
    assert wrong <= 24


MANY = st.lists(st.lists(st.floats(0.001, 1000), min_size=6, max_size=6), min_size=1, max_size=3)


@given(MANY, st.floats(0.01, 0.5))
@settings(max_examples=30)
def test_the_sides_of_comparisons_may_be_swapped(many: list[list[float]], margin: float) -> None:
    pairs = [np.log(floats(*values)) for values in many]
    forth = family.judge([case(pair) for pair in pairs], margin=margin, seed=1)
    back = family.judge([case(-pair) for pair in pairs], margin=margin, seed=1)
    turned = {"higher": "lower", "lower": "higher"}
    for one, other in zip(forth, back, strict=True):
        assert one.ratio is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.ratio <= one.high
        assert other.ratio == pytest.approx(1 / one.ratio)
        assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
        assert (other.p, other.p_holm) == pytest.approx((one.p, one.p_holm))
        assert other.finding == turned.get(one.finding, one.finding)

"""Two independent samples: estimates, intervals and tests against SciPy and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from trilane.lab.analysis import unpaired
from trilane.lab.analysis.stats import Floats, Interval
from trilane.lab.model.comparison import Floor


def logs(centre: float, size: int, seed: int, noise: float = 0.03) -> Floats:
    chance = np.random.default_rng(seed)
    return np.asarray(math.log(centre) + chance.normal(0, noise, size), dtype=np.float64)


def test_the_shift_is_the_median_of_all_differences() -> None:
    a, b = np.array([1.0, 2.0, 4.0]), np.array([3.0, 8.0])
    differences = [y - x for x in a for y in b]
    assert unpaired.shift(a, b) == np.median(differences)
    assert unpaired.shift(b, a) == -unpaired.shift(a, b)


def test_the_smallest_p_is_what_complete_separation_gives() -> None:
    for a, b in ((3, 3), (4, 4), (6, 6), (6, 8)):
        low, high = np.arange(a, dtype=np.float64), np.arange(b, dtype=np.float64) + 100
        apart = unpaired.rank_sum(low, np.asarray(high, dtype=np.float64), "two-sided", 1)
        assert apart == pytest.approx(unpaired.smallest_p(a, b))
    assert unpaired.smallest_p(0, 6) == 1
    assert unpaired.values_needed(1) == 4
    assert unpaired.values_needed(3) == 5


def brute_force(a: Floats, b: Floats) -> float:
    """Permutation p of the rank sum with mid-ranks: twice the smaller tail."""
    ranks = scipy.stats.rankdata(np.concatenate([a, b]))
    seen = ranks[len(a) :].sum()
    sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks, len(b))])
    tails = np.mean(sums >= seen - 1e-9), np.mean(sums <= seen + 1e-9)
    return float(min(1.0, 2 * min(tails)))


# One value alone has no interval and is not judged.
FEW = st.lists(st.integers(0, 6), min_size=2, max_size=5)


@given(FEW, FEW)
@settings(max_examples=50)
def test_ties_are_enumerated(first: list[int], second: list[int]) -> None:
    a, b = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    assert unpaired.rank_sum(a, b, "two-sided", 1) == pytest.approx(brute_force(a, b))


LOGS = st.lists(st.floats(-3, 3), min_size=1, max_size=8)


@given(LOGS, LOGS, st.floats(-3, 3))
def test_the_shift_follows_the_sides_and_no_scale(
    first: list[float], second: list[float], scale: float
) -> None:
    a, b = np.array(first), np.array(second)
    found = unpaired.shift(a, b)
    assert unpaired.shift(b, a) == pytest.approx(-found, abs=1e-12)
    assert unpaired.shift(a + scale, b + scale) == pytest.approx(found, abs=1e-9)
    assert unpaired.shift(a, b + scale) == pytest.approx(found + scale, abs=1e-9)


def test_one_side_tests_ask_whether_b_lies_above_or_below() -> None:
    a, b = logs(1.0, 6, 1), logs(1.2, 6, 2)
    assert unpaired.rank_sum(a, b, "greater", 1) == pytest.approx(1 / math.comb(12, 6))
    assert unpaired.rank_sum(a, b, "less", 1) == pytest.approx(1)
    assert unpaired.beyond(a, b, 1.05, above=True, seed=1) < 0.01
    assert unpaired.beyond(a, b, 1.5, above=True, seed=1) > 0.9
    assert unpaired.beyond(a, b, 1.5, above=False, seed=1) < 0.01


@pytest.mark.parametrize("sizes", [(6, 6), (6, 12)])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(
    sizes: tuple[int, int],
) -> None:
    chance = np.random.default_rng(7)
    tries, covered = 300, 0
    for seed in range(tries):
        # Different spreads on the two sides: what Welch's correction is for.
        a = np.asarray(chance.normal(0, 0.02, sizes[0]), dtype=np.float64)
        b = np.asarray(chance.normal(0.1, 0.05, sizes[1]), dtype=np.float64)
        found = unpaired.interval(a, b, seed)
        assert found is not None
        covered += found.low <= 0.1 <= found.high
    # 95 % of 300 is 285; four standard deviations are 15.
    assert covered >= 270


def test_one_value_on_a_side_has_no_interval() -> None:
    assert unpaired.interval(np.array([1.0]), np.array([1.0, 2.0]), 1) is None


def test_sides_that_do_not_vary_have_an_interval_without_width() -> None:
    found = unpaired.interval(np.array([1.0, 1.0]), np.array([1.5, 1.5]), 1)
    assert found == Interval(0.5, 0.5, 0.5)


def judge(a: Floats, b: Floats, *, floor: Floor | None = None, valid: bool = True) -> str:
    found = unpaired.compare([(a, b)], floors=[floor], margin=0.05, seed=1, valid=[valid])[0]
    assert found is not None
    return found.finding


def test_findings() -> None:
    one = logs(1.0, 8, 1)
    assert judge(one, logs(1.2, 8, 2)) == "higher"
    assert judge(one, logs(0.8, 8, 2)) == "lower"
    assert judge(logs(1.0, 8, 1, 0.005), logs(1.0, 8, 2, 0.005)) == "no_difference"
    assert judge(logs(1.0, 8, 1, 0.2), logs(1.0, 8, 2, 0.2)) == "undecided"
    assert judge(one, logs(1.2, 8, 2), valid=False) == "invalid"


def test_no_difference_is_claimed_below_the_noise_floor() -> None:
    a, b = logs(1.0, 8, 1), logs(1.2, 8, 2)
    assert judge(a, b, floor=Floor(ratio=1.0, low=0.5, high=2.0)) == "higher"
    assert judge(a, b, floor=Floor(ratio=0.75, low=0.7, high=0.8)) == "undecided"


def test_a_large_difference_in_three_blocks_is_not_shown() -> None:
    assert judge(logs(1.0, 3, 1), logs(3.0, 3, 2)) == "undecided"


def test_holm_spans_the_family() -> None:
    a, b = logs(1.0, 4, 1), logs(1.5, 4, 2)
    alone = unpaired.compare([(a, b)], floors=[None], margin=0.05, seed=1, valid=[True])[0]
    three = unpaired.compare([(a, b)] * 3, floors=[None] * 3, margin=0.05, seed=1, valid=[True] * 3)
    assert alone is not None
    assert three[0] is not None
    assert alone.finding == "higher"
    assert three[0].p_holm == pytest.approx(3 * alone.p)
    assert three[0].finding == "undecided"


def test_a_and_b_may_be_swapped() -> None:
    a, b = logs(1.0, 6, 1), logs(1.1, 6, 2)
    forth = unpaired.compare([(a, b)], floors=[None], margin=0.05, seed=1, valid=[True])[0]
    back = unpaired.compare([(b, a)], floors=[None], margin=0.05, seed=1, valid=[True])[0]
    assert forth is not None
    assert back is not None
    assert forth.ratio == pytest.approx(1 / back.ratio)
    assert forth.p == pytest.approx(back.p)
    assert (back.low, back.high) == pytest.approx((1 / forth.high, 1 / forth.low), rel=0.03)

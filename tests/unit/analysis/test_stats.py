from __future__ import annotations

import itertools
import math
from random import Random
from typing import get_args

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from trilane.lab.analysis import stats


def floats(*values: float) -> stats.Floats:
    return np.array(values, dtype=np.float64)


def test_hodges_lehmann_is_the_median_of_the_walsh_averages() -> None:
    # Walsh averages of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6; their median is 2.75.
    assert stats.hodges_lehmann(floats(1, 2, 6)) == pytest.approx(2.75)


def test_hodges_lehmann_of_symmetric_data_is_its_centre() -> None:
    assert stats.hodges_lehmann(floats(-3, -1, 0, 1, 3)) == pytest.approx(0)


def test_hodges_lehmann_hardly_moves_for_one_outlier() -> None:
    assert abs(float(stats.hodges_lehmann(floats(0, 0.01, -0.01, 0.02, -0.02, 0.01, 50)))) < 0.03


def test_signed_rank_is_exact_for_the_smallest_samples() -> None:
    assert stats.signed_rank(floats(1, 2, 3, 4, 5, 6), "two-sided") == pytest.approx(2 / 2**6)
    assert stats.signed_rank(floats(1, 2, 3, 4, 5, 6), "greater") == pytest.approx(1 / 2**6)
    # W+ = 6 of 21: P(W+ <= 6) = 14/64 by counting the sets of {1..6} with sum <= 6.
    assert stats.signed_rank(floats(1, 2, 3, -4, -5, -6), "less") == pytest.approx(14 / 64)


@given(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=8))
def test_signed_rank_with_ties_equals_counting_all_sign_flips(values: list[int]) -> None:
    differences = floats(*values)
    ranks = scipy.stats.rankdata(np.abs(differences))
    seen = ranks[differences > 0].sum()
    flips = np.array(list(itertools.product((0, 1), repeat=len(ranks))))
    sums = flips @ ranks
    below, above = float(np.mean(sums <= seen + 1e-9)), float(np.mean(sums >= seen - 1e-9))
    assert stats.signed_rank(differences, "less") == pytest.approx(below)
    assert stats.signed_rank(differences, "greater") == pytest.approx(above)
    both = min(1.0, 2 * min(below, above))
    assert stats.signed_rank(differences, "two-sided") == pytest.approx(both)


@pytest.mark.parametrize("count", [1, 2, 6, 7, 20, 60])
def test_signed_rank_without_ties_is_that_of_scipy(count: int) -> None:
    differences = np.random.default_rng(count).normal(0.3, 1, count)
    for alternative in get_args(stats.Alternative):
        expected = scipy.stats.wilcoxon(differences, alternative=alternative, method="exact")
        found = stats.signed_rank(differences, alternative)
        assert found == pytest.approx(expected.pvalue, rel=1e-9)


def test_signed_rank_of_no_difference_at_all_is_one() -> None:
    assert stats.signed_rank(floats(0, 0, 0, 0), "two-sided") == 1.0


def test_holm_matches_a_hand_computed_table() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]) == []


def test_holm_equals_one_comparison_unadjusted() -> None:
    assert stats.holm([0.03125]) == [0.03125]


def test_fewer_blocks_than_the_least_show_nothing() -> None:
    least = stats.LEAST_BLOCKS
    assert stats.signed_rank(floats(*range(1, least + 1)), "two-sided") <= stats.ALPHA
    assert stats.signed_rank(floats(*range(1, least)), "two-sided") > stats.ALPHA


def test_bootstrap_needs_two_blocks() -> None:
    assert stats.bootstrap(floats(1), stats.median, 0) is None
    assert stats.bootstrap(floats(), stats.median, 0) is None


def test_bootstrap_is_reproducible_by_its_seed() -> None:
    data = floats(1, 2, 3, 4, 5, 6, 7)
    assert stats.bootstrap(data, stats.median, 5) == stats.bootstrap(data, stats.median, 5)


@pytest.mark.parametrize("blocks", [2, 7, 9, 10])
def test_resamples_that_are_alike_count_as_often_as_they_are_drawn(blocks: int) -> None:
    data = np.random.default_rng(blocks).normal(size=blocks)
    drawn = np.random.default_rng(3).integers(0, blocks, size=(999, blocks))
    tail = stats._widened_tail(blocks, stats.ALPHA)
    low, high = np.quantile(stats.hodges_lehmann(data[drawn]), [tail, 1 - tail])
    interval = stats.bootstrap(data, stats.hodges_lehmann, 3, 999)
    assert interval == stats.Interval(float(stats.hodges_lehmann(data)), low, high)


def test_bootstrap_interval_holds_the_centre_and_stays_inside_the_data() -> None:
    interval = stats.bootstrap(floats(1, 2, 3, 4, 5, 6, 7), stats.hodges_lehmann, 1)
    assert interval is not None
    assert 1 <= interval.low < interval.centre < interval.high <= 7


@pytest.mark.parametrize("blocks", [6, 7, 20])
def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says(
    blocks: int,
) -> None:
    rng = np.random.default_rng(blocks)
    trials = 150
    covered = 0
    for _ in range(trials):
        interval = stats.bootstrap(rng.normal(0, 1, blocks), stats.hodges_lehmann, 3)
        assert interval is not None
        covered += interval.low <= 0 <= interval.high
    # The plain percentile interval would reach about 0.87 with six blocks.
    assert covered / trials >= 0.90


def test_equivalence_is_shown_inside_the_margin_only() -> None:
    near = floats(0.001, -0.002, 0.003, 0.004, -0.005, 0.006, 0.002)
    assert stats.equivalence(near, 0.05) == pytest.approx(1 / 2**7)
    assert stats.equivalence(near + math.log(1.2), 0.05) > 0.5


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    assert stats.median(floats(*values)) == np.median(floats(*values))


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.floats(0.001, 1000))), st.floats(0.001, 1000))
def test_log_ratios_know_no_scale_and_change_their_sign_with_the_sides(
    pairs: list[tuple[float, float]], scale: float
) -> None:
    first, second = floats(*(a for a, _ in pairs)), floats(*(b for _, b in pairs))
    found = stats.log_ratios(first, second)
    assert stats.log_ratios(first * scale, second * scale) == pytest.approx(found, abs=1e-9)
    assert stats.log_ratios(second, first) == pytest.approx(-found, abs=1e-9)


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms(use_true_random=False))
def test_holm_keeps_the_order_and_raises_every_p(values: list[float], chance: Random) -> None:
    adjusted = stats.holm(values)
    both = list(zip(values, adjusted, strict=True))
    assert all(p <= more <= 1 for p, more in both)
    assert [more for _, more in sorted(both)] == sorted(adjusted)
    chance.shuffle(both)
    assert sorted(stats.holm([p for p, _ in both])) == sorted(adjusted)


def test_blocks_without_both_values_have_no_log_ratio() -> None:
    ratios = stats.log_ratios(floats(2, math.nan, 4, 1), floats(1, 1, math.nan, 0))
    assert ratios == pytest.approx([math.log(2), math.nan, math.nan, math.nan], nan_ok=True)
    assert stats.known(ratios) == pytest.approx([math.log(2)])

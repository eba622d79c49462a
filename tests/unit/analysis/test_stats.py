from __future__ import annotations

import itertools
import math
from random import Random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

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
    ranks = scipy_stats.rankdata(np.abs(differences))
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
        expected = scipy_stats.wilcoxon(differences, alternative=alternative, method="exact")
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


@pytest.mark.parametrize(("comparisons", "blocks"), [(1, 6), (2, 7), (3, 7), (6, 8)])
def test_blocks_needed_is_the_first_count_that_can_reach_significance(
    comparisons: int, blocks: int
) -> None:
    assert stats.blocks_needed(comparisons) == blocks
    assert 2 / 2**blocks * comparisons <= stats.ALPHA < 2 / 2 ** (blocks - 1) * comparisons


def test_bootstrap_needs_two_blocks() -> None:
    assert stats.bootstrap(floats(1), stats.median, 0) is None
    assert stats.bootstrap(floats(), stats.median, 0) is None


def test_bootstrap_is_reproducible_by_its_seed() -> None:
    data = floats(1, 2, 3, 4, 5, 6, 7)
    assert stats.bootstrap(data, stats.median, 5) == stats.bootstrap(data, stats.median, 5)


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


def judge(samples: stats.Floats, **changes: object) -> stats.Comparison:
    options: dict[str, object] = {
        "repeated": [floats(0.001, -0.001, 0.002, -0.002)],
        "margin": 0.05,
        "seed": 1,
        "valid": [True],
    }
    [found] = stats.compare([samples], **{**options, **changes})  # type: ignore[arg-type]
    assert found is not None
    return found


STEADY = floats(0.3, 0.31, 0.29, 0.305, 0.295, 0.302, 0.299)


def test_a_clear_difference_is_named() -> None:
    assert judge(STEADY).finding == "higher"
    assert judge(-STEADY).finding == "lower"
    assert judge(STEADY).ratio == pytest.approx(math.exp(0.3), rel=0.01)


def test_a_difference_that_the_arms_have_to_themselves_is_not_named() -> None:
    found = judge(STEADY, repeated=[floats(0.31, 0.32, 0.33, 0.30)])
    assert (found.finding, found.vetoed) == ("undecided", True)
    assert found.aa == pytest.approx(math.exp(0.315))
    # On the other side of 1 as well: order alone would make such a difference.
    assert judge(STEADY, repeated=[floats(-0.31, -0.32, -0.33, -0.30)]).vetoed


def test_noise_around_the_centre_of_aa_vetoes_nothing() -> None:
    wide = floats(0.6, -0.6, 0.5, -0.5, 0.01)
    found = judge(STEADY, repeated=[wide])
    assert (found.finding, found.vetoed) == ("higher", False)


def test_one_slow_run_of_an_arm_beside_itself_vetoes_nothing() -> None:
    slow = floats(0.001, -0.002, 0.002, 0.28, -0.001)
    assert judge(STEADY * 0.1, repeated=[slow]).finding == "higher"


def test_a_few_ratios_of_arms_to_themselves_have_no_centre() -> None:
    found = judge(STEADY, repeated=[floats(0.5, 0.5, 0.5)])
    assert (found.finding, found.aa) == ("higher", None)


def test_an_invalid_run_forbids_any_finding() -> None:
    assert judge(STEADY, valid=[False]).finding == "invalid"


def test_no_difference_is_found_and_not_only_not_denied() -> None:
    assert judge(STEADY - 0.3).finding == "no_difference"
    assert judge(floats(0.3, -0.3, 0.2, -0.2, 0.1, -0.1, 0.05)).finding == "undecided"


def test_more_blocks_are_those_that_a_planned_test_needs() -> None:
    chance = np.random.default_rng(3)
    found = judge(chance.normal(0.02, 0.04, 10))
    assert found.finding == "undecided"
    more = found.more_blocks
    assert more is not None
    # With so many more blocks like these, about four of five comparisons are decided.
    spread, centre = 0.04, math.log(found.ratio)
    decided = 0
    for _ in range(100):
        samples = chance.normal(centre, spread, 10 + more)
        decided += judge(samples).finding != "undecided"
    assert decided >= 60


def test_more_blocks_grow_with_the_noise_and_the_family() -> None:
    def more(spread: float, family: int) -> int:
        interval = stats.Interval(0.02, 0.02 - spread, 0.02 + spread)
        return stats.more_blocks(interval, 10, 0.05, family)

    assert more(0.03, 1) < more(0.06, 1) < more(0.06, 3)
    # A tenth of the way to the margin, equality takes fewer than a difference would.
    assert stats.more_blocks(stats.Interval(0.005, -0.055, 0.065), 10, 0.05, 1) < 200


def test_what_is_decided_or_vetoed_needs_no_more_blocks() -> None:
    assert judge(STEADY).more_blocks is None
    assert judge(STEADY, repeated=[floats(0.31, 0.32, 0.33, 0.30)]).more_blocks is None


def test_six_blocks_decide_one_comparison_but_never_two() -> None:
    six = STEADY[:6]
    none = floats()
    [alone] = stats.compare([six], repeated=[none], margin=0.05, seed=1, valid=[True])
    pair = stats.compare([six] * 2, repeated=[none] * 2, margin=0.05, seed=1, valid=[True] * 2)
    assert alone is not None
    assert alone.finding == "higher"
    assert [found and found.finding for found in pair] == ["undecided", "undecided"]


def test_comparisons_without_enough_blocks_are_left_open() -> None:
    found = stats.compare(
        [floats(), STEADY], repeated=[floats()] * 2, margin=0.05, seed=1, valid=[True, True]
    )
    assert found[0] is None
    assert found[1] is not None
    assert found[1].p_holm == found[1].p


def test_identical_arms_are_told_apart_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(7)
    races = 300
    wrong = 0
    for _ in range(races):
        base, *others = rng.normal(0, 0.02, (3, 7))
        pairs = [other - base for other in others]
        repeated = [rng.normal(0, 0.03, 5) for _ in others]
        found = stats.compare(pairs, repeated=repeated, margin=0.05, seed=1, valid=[True, True])
        wrong += any(f is not None and f.finding in ("higher", "lower") for f in found)
    # Binomial(300, 0.05) exceeds 24 with probability 0.02; the seed makes the count a constant.
    assert wrong <= 24


MANY = st.lists(st.floats(0.001, 1000), min_size=2, max_size=12)


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


@given(st.lists(MANY, min_size=1, max_size=3), st.floats(0.01, 0.5))
@settings(max_examples=30)
def test_the_sides_of_comparisons_may_be_swapped(many: list[list[float]], margin: float) -> None:
    pairs = [np.log(floats(*values)) for values in many]
    alone = [floats()] * len(pairs)
    options = {"repeated": alone, "margin": margin, "seed": 1, "valid": [True] * len(pairs)}
    forth = stats.compare(pairs, **options)  # type: ignore[arg-type]
    back = stats.compare([-pair for pair in pairs], **options)  # type: ignore[arg-type]
    turned = {"higher": "lower", "lower": "higher"}
    for one, other in zip(forth, back, strict=True):
        assert one is not None
        assert other is not None
        assert one.low <= one.ratio <= one.high
        assert other.ratio == pytest.approx(1 / one.ratio)
        assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
        assert (other.p, other.p_holm) == (one.p, one.p_holm)
        assert other.finding == turned.get(one.finding, one.finding)


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms(use_true_random=False))
def test_holm_keeps_the_order_and_raises_every_p(values: list[float], chance: Random) -> None:
    adjusted = stats.holm(values)
    both = list(zip(values, adjusted, strict=True))
    assert all(p <= more <= 1 for p, more in both)
    assert [more for _, more in sorted(both)] == sorted(adjusted)
    chance.shuffle(both)
    assert sorted(stats.holm([p for p, _ in both])) == sorted(adjusted)


def test_log_ratios_leave_out_blocks_without_both_values() -> None:
    ratios = stats.log_ratios(floats(2, math.nan, 4, 1), floats(1, 1, math.nan, 0))
    assert ratios == pytest.approx([math.log(2)])

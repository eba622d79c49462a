"""The p of a whole table, against computations that share nothing with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from trilane.lab.analysis import familywise
from trilane.lab.analysis.stats import Floats


def table(seed: int, blocks: int, comparisons: int, shift: float = 0.0) -> Floats:
    """Log-ratios of correlated comparisons, of which each lies farther from zero."""
    chance = np.random.default_rng(seed)
    shared = chance.normal(0, 0.02, (blocks, 1))
    own = chance.normal(0, 0.01, (blocks, comparisons))
    return np.asarray(shared + own + shift * np.arange(comparisons), dtype=np.float64)


def strength(column: Floats, signs: tuple[float, ...]) -> float:
    """p of Student's t of one column of a flipped table, by SciPy."""
    known = column[np.isfinite(column) & (column != 0)]
    flipped = known * np.array(signs)[np.isfinite(column) & (column != 0)]
    limit = 2 * np.median(np.abs(known))
    return float(scipy.stats.ttest_1samp(np.clip(flipped, -limit, limit), 0).pvalue)


def closed(log_ratios: Floats, shares: Floats) -> list[float]:
    """By the closure principle: the largest p of all sets that hold the comparison."""
    blocks, comparisons = log_ratios.shape
    flips = list(itertools.product((1.0, -1.0), repeat=blocks))
    strengths = np.array(
        [
            [strength(log_ratios[:, each], signs) / shares[each] for each in range(comparisons)]
            for signs in flips
        ]
    )
    adjusted = [0.0] * comparisons
    for size in range(1, comparisons + 1):
        for some in itertools.combinations(range(comparisons), size):
            strongest = strengths[:, list(some)].min(axis=1)
            p = float(np.mean(strongest <= strongest[0] * (1 + 1e-6)))
            for each in some:
                adjusted[each] = max(adjusted[each], p)
    return adjusted


@pytest.mark.parametrize("seed", range(6))
def test_the_adjusted_p_is_that_of_testing_every_set_of_comparisons(seed: int) -> None:
    log_ratios = table(seed, 6, 4, shift=0.01)
    log_ratios[2, 1] = np.nan
    shares = familywise.weights([True, False, False, True])
    found = familywise.different(log_ratios, shares, seed)
    assert found == pytest.approx(closed(log_ratios, shares))


def test_of_one_comparison_it_is_the_permutation_test_of_scipy() -> None:
    column = table(3, 9, 1, shift=0.0)[:, 0] + 0.012
    limit = 2 * np.median(np.abs(column))
    expected = scipy.stats.permutation_test(
        [np.clip(column, -limit, limit)],
        lambda values: float(values.mean()),
        permutation_type="samples",
        # As many as there are patterns: then SciPy tries every one.
        n_resamples=1 << 9,
    )
    found = familywise.different(column[:, None], np.ones(1), 1)
    assert found == pytest.approx([expected.pvalue])


def test_the_p_of_no_difference_is_that_of_both_one_sided_tests_of_all() -> None:
    log_ratios, margin = table(5, 7, 3, shift=0.02), 0.05
    bound = np.log1p(margin)
    both = np.hstack([log_ratios + bound, bound - log_ratios])
    limits = 2 * np.median(np.abs(both), axis=0)
    clipped = np.clip(both, -limits, limits)

    def strengths(signs: tuple[float, ...]) -> Floats:
        told = scipy.stats.ttest_1samp(clipped * np.array(signs)[:, None], 0, alternative="greater")
        return np.asarray(told.pvalue, dtype=np.float64)

    flips = np.array([strengths(s) for s in itertools.product((1.0, -1.0), repeat=7)])
    expected = np.zeros(6)
    worst, left = 0.0, list(range(6))
    while left:
        best = min(left, key=lambda each: flips[0, each])
        strongest = flips[:, left].min(axis=1)
        worst = max(worst, float(np.mean(strongest <= flips[0, best] * (1 + 1e-6))))
        expected[best] = worst
        left.remove(best)
    found = familywise.equal(log_ratios, np.full(3, 1 / 3), margin, 1)
    assert found == pytest.approx(expected.reshape(2, 3).max(axis=0))
    assert found.min() < 0.05 < found.max()


def test_what_other_measures_repeat_costs_nothing() -> None:
    column = table(1, 10, 1, shift=0.0) + 0.02
    alone = familywise.different(column, np.ones(1), 1)
    # p50 in a closed model is the rate once more, upside down.
    again = familywise.different(np.hstack([column, -column, column]), np.full(3, 1 / 3), 1)
    assert again == pytest.approx(np.repeat(alone, 3))


def test_ten_blocks_decide_a_large_table() -> None:
    """Holm over as many rank tests of ten blocks could name nothing."""
    log_ratios = table(2, 10, 60)
    log_ratios[:, 7] += 0.3
    found = familywise.different(log_ratios, familywise.weights([False] * 60), 1)
    assert found[7] <= 0.01
    assert np.delete(found, 7).min() > 0.05


def test_the_deciding_measure_gets_most_and_the_others_what_it_leaves() -> None:
    shares = familywise.weights([True, True, False, False, False, False])
    assert shares.sum() == pytest.approx(1)
    assert shares[:2].sum() == pytest.approx(familywise.DECIDING)
    for alike in ([True] * 3, [False] * 3):
        assert familywise.weights(alike) == pytest.approx([1 / 3] * 3)
    assert len(familywise.weights([])) == 0
    # Decided, the first measure leaves its share: the next is judged as if it stood alone.
    log_ratios = table(4, 10, 2)
    log_ratios[:, 0] += 1
    log_ratios[:, 1] += 0.02
    both = familywise.different(log_ratios, familywise.weights([True, False]), 1)
    alone = familywise.different(log_ratios[:, 1:], np.ones(1), 1)
    assert both[1] == pytest.approx(max(both[0], alone[0]))


def test_a_measure_that_does_not_vary_is_no_trouble() -> None:
    log_ratios = table(1, 10, 4)
    log_ratios[:, 1] = 0.0
    log_ratios[:, 2] = 0.1
    log_ratios[:, 3] = np.nan
    log_ratios[0, 3] = 0.1
    found = familywise.different(log_ratios, np.full(4, 1 / 4), 1)
    assert found[[1, 3]].tolist() == [1, 1]
    # A pattern and its opposite, of 1,024.
    assert found[2] == pytest.approx(2 / 1024)
    without = familywise.different(log_ratios[:, [0]], np.ones(1), 1)
    assert found[0] == pytest.approx(without[0])
    equal = familywise.equal(log_ratios, np.full(4, 1 / 4), 0.05, 1)
    assert (equal[1] <= 0.05, equal[2] > 0.5, equal[3]) == (True, True, 1)


def test_of_many_blocks_a_seeded_sample_is_near_the_exact_p(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_ratios = table(6, 12, 5, shift=0.004)
    shares = familywise.weights([True, False, False, False, False])
    exact = familywise.different(log_ratios, shares, 1)
    equal = familywise.equal(log_ratios, shares, 0.05, 1)
    monkeypatch.setattr(familywise, "EXACT_BLOCKS", 11)
    familywise._patterns.cache_clear()
    assert familywise.different(log_ratios, shares, 1) == pytest.approx(exact, abs=0.03)
    assert familywise.equal(log_ratios, shares, 0.05, 1) == pytest.approx(equal, abs=0.03)
    again = familywise.different(log_ratios, shares, 1)
    assert familywise.different(log_ratios, shares, 1).tolist() == again.tolist()
    assert familywise.different(log_ratios, shares, 2).tolist() != again.tolist()
    familywise._patterns.cache_clear()


@given(st.integers(0, 1000), st.integers(2, 8), st.integers(1, 5), st.floats(0.01, 100), st.data())
@settings(max_examples=40)
def test_neither_scale_nor_sides_nor_order_change_it(
    seed: int, blocks: int, comparisons: int, scale: float, data: st.DataObject
) -> None:
    log_ratios = table(seed, blocks, comparisons, shift=0.01)
    shares = familywise.weights([place == 0 for place in range(comparisons)])
    found = familywise.different(log_ratios, shares, 1)
    assert (found > 0).all()
    assert (found <= 1).all()
    assert familywise.different(-scale * log_ratios, shares, 1) == pytest.approx(found)
    order = data.draw(st.permutations(range(comparisons)))
    turned = familywise.different(log_ratios[:, order], shares[order], 1)
    assert turned == pytest.approx(found[order])
    # The order of the blocks tells nothing either: each pattern is there.
    assert familywise.different(log_ratios[::-1], shares, 1) == pytest.approx(found)

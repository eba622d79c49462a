"""What each look at a budget may spend, and the answers, against published and integrated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from research.comparisons import budgets
from research.comparisons.noise import Noise
from trilane.lab.analysis import looks, spending
from trilane.lab.analysis.stats import Floats
from trilane.lab.model.comparison import Look

PLAN = looks.planned(30, budgets=True)


def obrien_fleming(part: float) -> float:
    """Lan and DeMets' function like O'Brien and Fleming's, 2.5 % of one side."""
    quantile = scipy.stats.norm.isf(spending.SIDE / 2)
    return float(2 * scipy.stats.norm.sf(quantile / math.sqrt(part)))


def test_the_bounds_are_those_that_are_published() -> None:
    # Reboussin, DeMets, Kim and Lan (2000), "Computations for group sequential boundaries": five
    # looks at equal distances.
    found = spending.bounds([1, 2, 3, 4, 5], obrien_fleming)
    assert found == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-3)


@pytest.mark.parametrize("blocks", [[10, 14, 20, 30], [7, 30], [12], [10, 14, 20, 27, 38, 54]])
def test_the_looks_spend_what_was_planned(blocks: list[int]) -> None:
    # The walk at the looks is normal with these correlations, which SciPy integrates otherwise.
    parts = np.array(blocks) / blocks[-1]
    correlations = np.sqrt(np.minimum.outer(parts, parts) / np.maximum.outer(parts, parts))
    bounds = np.array(spending.bounds(blocks))
    for number in range(1, len(blocks) + 1):
        kept = scipy.stats.multivariate_normal.cdf(
            bounds[:number],
            cov=correlations[:number, :number],
            rng=np.random.default_rng(1),
        )
        assert 1 - kept == pytest.approx(spending.spent(parts[number - 1]), abs=1e-4)


def test_more_is_left_for_the_last_look_than_bonferroni_leaves() -> None:
    sides = [look.side or 0.0 for look in PLAN]
    assert [look.blocks for look in PLAN] == [10, 14, 20, 30]
    assert sides == sorted(sides)
    assert sides[-1] > 1.5 * PLAN[-1].alpha / 2
    # A single look has all of it, and tables keep what they had.
    assert looks.planned(12, budgets=True) == [Look(blocks=12, alpha=0.05, side=spending.SIDE)]
    assert [look.alpha for look in PLAN] == [look.alpha for look in looks.planned(30)]


@pytest.mark.parametrize("most", [7, 10, 13, 18, 30, 60, 100, 1000])
def test_no_look_is_planned_that_could_decide_nothing(most: int) -> None:
    planned = looks.planned(most, budgets=True)
    assert planned[-1].blocks == most
    assert all(spending.smallest_p(look.blocks) <= (look.side or 0) for look in planned)


def ratios(centre: float, blocks: int = 10, spread: float = 0.01) -> Floats:
    chance = np.random.default_rng(5)
    return np.asarray(math.log(centre) + chance.normal(0, spread, blocks), dtype=np.float64)


def test_the_whole_interval_and_the_test_say_whether_a_budget_is_kept() -> None:
    met = spending.judge(ratios(1.0), 0.0, 1.05, seed=1)
    breached = spending.judge(ratios(1.1), 0.0, 1.05, seed=1)
    undecided = spending.judge(ratios(1.05), 0.0, 1.05, seed=1)
    below = spending.judge(ratios(0.9), 0.95, 1.05, seed=1)
    assert met is not None
    assert (met.met, met.p) == (True, 2**-10)
    assert met.interval.low < 1.0 < met.interval.high < 1.05
    assert breached is not None
    assert (breached.met, breached.p) == (False, 2**-10)
    assert undecided is not None
    assert (undecided.met, undecided.p) == (None, 1.0)
    assert below is not None
    assert below.met is False
    assert spending.judge(ratios(1.0, blocks=1), 0.0, 1.05, seed=1) is None


def test_a_test_that_does_not_reach_the_level_decides_nothing() -> None:
    seen = ratios(1.1, blocks=7)
    assert spending.judge(seen, 0.0, 1.05, seed=1) is not None
    strict = spending.judge(seen, 0.0, 1.05, seed=1, side=2**-8)
    assert strict is not None
    # Seven blocks that all agree have a p of 2 ** -7.
    assert (strict.interval.low > 1.05, strict.p, strict.met) == (True, 2**-7, None)


def test_a_breach_lies_farther_beyond_the_limit_than_arms_lie_from_themselves() -> None:
    seen = ratios(1.1)
    for aa, met in ((1.04, False), (1.06, None), (1 / 1.06, None), (None, False)):
        judged = spending.judge(seen, 0.0, 1.05, seed=1, aa=aa)
        assert judged is not None
        assert judged.met is met, aa


# The CPU of a model with noise of 2 % alone, as its other measures do not matter here.
QUIET = Noise("2 %", lambda chance, runs: chance.normal(0, 0.02, (runs, 5)))


def answers(noise: Noise, effect: float, budget: float) -> budgets.Answers:
    return budgets.simulate(noise, effect=effect, budget=budget, plan=PLAN, tables=200, seed=4)


def test_a_head_at_its_budget_is_seldom_called_beyond_it() -> None:
    found = answers(QUIET, 0.05, 0.05)
    # Of 200 comparisons 2.5 % are 5; more than 10 come in two of a hundred, and the seed is fixed.
    assert found.breached <= 10 / 200
    assert found.met <= 10 / 200


def test_looks_without_spending_call_it_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [Look(blocks=n, alpha=0.05, side=spending.SIDE) for n in range(7, 31)]
    found = budgets.simulate(QUIET, effect=0.05, budget=0.05, plan=every, tables=200, seed=4)
    assert found.breached + found.met > 2 * 10 / 200


def test_an_unchanged_head_passes_and_a_costlier_one_is_caught() -> None:
    unchanged, costlier = answers(QUIET, 0.0, 0.03), answers(QUIET, 0.08, 0.03)
    assert unchanged.passes >= 0.98
    assert unchanged.met >= 0.9
    assert costlier.breached >= 0.9
    assert costlier.blocks < 30

"""What the rules of comparisons claim where the truth is known: races of `research`, in small."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from research.comparisons import simulation
from research.comparisons.noise import Noise, modelled
from research.comparisons.races import races
from research.comparisons.simulation import Ended, Rates
from trilane.lab.analysis import family, familywise, looks, stats
from trilane.lab.model.comparison import Look, Ratio

MODEL = Noise("slow runs", modelled(0.03, 1 / 14))
# The measure that decides alone: most of the time goes to the others.
ALONE = Noise("rate alone", lambda chance, runs: MODEL.draw(chance, runs)[:, :1])
# Of 60 tables 5 % are 3; more than 7 come once in a hundred times, and the seed is fixed.
TABLES, MOST = 60, 7 / 60


def rates(noise: Noise, tables: int, effects: dict[int, float] | None = None) -> Rates:
    return simulation.simulate(noise, arms=3, blocks=10, tables=tables, seed=3, effects=effects)


@cache
def faster() -> Rates:
    """Of races in which one arm is a tenth faster than the others."""
    return rates(MODEL, TABLES, {0: 0.1})


def test_a_table_whose_arms_do_not_differ_seldom_claims_that_they_do() -> None:
    found = rates(MODEL, TABLES)
    assert found.false_deciding <= found.false_table <= MOST
    # Nor does what differs in one measure make another seem to.
    assert faster().false_table <= MOST


def test_with_a_family_for_each_measure_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(familywise, "different", by_measure)
    assert rates(MODEL, TABLES).false_table > MOST


def by_measure(log_ratios: stats.Floats, _shares: stats.Floats, _seed: int) -> stats.Floats:
    """Holm over the three pairs of each measure."""
    p_values = [stats.signed_rank(column, "two-sided") for column in log_ratios.T]
    return np.array([stats.holm(p_values[at : at + 3]) for at in range(0, 18, 3)]).ravel()


def test_the_rule_finds_nine_tenths_of_what_the_test_alone_finds() -> None:
    found = faster()
    assert found.found_alone > 0.6
    assert found.found >= 0.9 * found.found_alone


def test_a_veto_by_the_reach_of_aa_would_find_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(repeated: stats.Floats) -> float:
        return float(np.exp(np.abs(repeated).max()))

    monkeypatch.setattr(stats, "centre", reach)
    found = rates(ALONE, TABLES, {0: 0.1})
    assert found.found < 0.9 * found.found_alone


def test_arms_that_differ_by_the_margin_are_seldom_called_equal() -> None:
    apart = rates(MODEL, TABLES, dict.fromkeys(range(6), simulation.MARGIN))
    assert apart.equal_false_deciding <= apart.equal_false_table <= MOST
    near = simulation.simulate(
        Noise("1 %", modelled(0.01, 0)), arms=3, blocks=10, tables=20, seed=1
    )
    assert near.equal >= 0.9


@pytest.mark.parametrize("alpha", [stats.ALPHA, 0.01])
def test_the_simulation_judges_as_a_comparison_does(
    monkeypatch: pytest.MonkeyPatch, alpha: float
) -> None:
    monkeypatch.setattr(simulation, "RESAMPLES", stats.RESAMPLES)
    drawn = races(MODEL, 3, 10, 1, {})
    pairs = [(0, 1), (0, 2), (1, 2)]
    seen = set()
    for _ in range(3):
        first, second = next(drawn)
        first[1, :, :2] += 0.06
        second[1, :, :2] += 0.06
        values = np.where(np.isnan(second), first, (first + second) / 2)
        made = family.judge(
            [
                family.Case(
                    Ratio(measure=str(measure), arm=str(b), to=str(a)),
                    values[b, :, measure] - values[a, :, measure],
                    stats.known((second - first)[[a, b], :, measure].ravel()),
                    valid=True,
                    decides=measure == 0,
                )
                for measure in range(6)
                for a, b in pairs
            ],
            margin=simulation.MARGIN,
            seed=1,
            alpha=alpha,
        )
        expected = [one.finding for one in made]
        said = simulation.judged(first, second, pairs, 1, alpha)
        assert said.different.ravel().tolist() == [f in ("higher", "lower") for f in expected]
        assert said.equal.ravel().tolist() == [f == "no_difference" for f in expected]
        seen.update(expected)
    assert seen >= {"higher", "no_difference", "undecided"}


# So much noise that nothing but a false claim ends a race of equal arms before its last look.
LOUD = Noise("30 %", lambda chance, runs: chance.normal(0, 0.3, (runs, 1)))


def ended(noise: Noise, effects: dict[int, float] | None = None) -> Ended:
    return simulation.simulate_until_decided(
        noise, arms=2, most=20, tables=TABLES, seed=3, effects=effects
    )


def test_looking_several_times_makes_no_more_false_claims() -> None:
    assert ended(LOUD).false_table <= stats.ALPHA
    assert ended(ALONE).false_table <= MOST
    assert ended(ALONE, {0: simulation.MARGIN}).equal_false_table <= MOST


def test_looks_that_are_not_corrected_for_would(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [Look(blocks=blocks, alpha=stats.ALPHA) for blocks in range(6, 21, 2)]
    monkeypatch.setattr(looks, "planned", lambda _most: every)
    assert ended(LOUD).false_table > stats.ALPHA


def test_a_large_difference_is_decided_early_and_a_small_one_late() -> None:
    clear, small = ended(ALONE, {0: 0.3}), ended(ALONE, {0: 0.03})
    assert (clear.blocks, clear.found_fixed) == (10, 1.0)
    assert clear.found > 0.95
    assert small.blocks > clear.blocks

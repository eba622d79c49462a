"""Steps of a history: planted ones are found where they are, and none where there is none."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from trilane.lab.analysis import steps


def series(*levels: tuple[float, int], spread: float = 0.02, seed: int = 1) -> list[float]:
    """So many values at each level, with log-normal noise."""
    chance = np.random.default_rng(seed)
    return [
        level * math.exp(chance.normal(0, spread)) for level, count in levels for _ in range(count)
    ]


def test_a_planted_step_is_found_at_its_place_with_its_size() -> None:
    [step] = steps.find(series((100.0, 20), (108.0, 15)))
    assert step.place == 20
    assert step.low < 1.08 < step.high
    assert step.low > 1.05
    assert step.p == 1 / (1 + steps.PERMUTATIONS)


def test_several_steps_are_found_and_each_is_of_its_neighbours() -> None:
    found = steps.find(series((100.0, 15), (110.0, 15), (95.0, 15)))
    assert [step.place for step in found] == [15, 30]
    up, down = found
    assert up.low < 1.1 < up.high
    assert down.low < 95 / 110 < down.high
    assert down.high < 1 < up.low


def test_the_places_are_those_of_another_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PERMUTATIONS", 199)
    ruptures = pytest.importorskip("ruptures")
    for seed in range(5):
        values = series((100.0, 14), (112.0, 11), (104.0, 17), seed=seed)
        found = [step.place for step in steps.find(values)]
        other = ruptures.Dynp(model="l2", min_size=steps.LEAST, jump=1).fit(np.log(values))
        assert [*found, len(values)] == other.predict(n_bkps=2)


def test_the_statistic_is_that_of_the_paper() -> None:
    values = np.log(series((1.0, 6), (1.5, 5), spread=0.3))
    found = steps.statistics(np.abs(values[:, None] - values[None, :]))
    expected = []
    for cut in range(steps.LEAST, len(values) - steps.LEAST + 1):
        left, right = values[:cut], values[cut:]
        between = np.mean([abs(a - b) for a in left for b in right])
        within = sum(
            np.mean([abs(a - b) for a, b in combinations(part, 2)]) for part in (left, right)
        )
        weight = len(left) * len(right) / len(values)
        expected.append(weight * (2 * between - within))
    assert found == pytest.approx(expected)


def test_one_run_that_is_far_off_is_no_step() -> None:
    values = series((100.0, 30))
    values[17] *= 2
    assert steps.find(values) == []


def test_a_series_without_a_step_seldom_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PERMUTATIONS", 199)
    told = [steps.find(series((100.0, 24), spread=0.05, seed=seed)) for seed in range(100)]
    # Of 100 series 1 % is 1; more than 4 come three times in a thousand, and the seeds are fixed.
    assert sum(map(bool, told)) <= 4
    assert {each.p <= steps.ALPHA for found in told for each in found} <= {True}


def test_a_step_of_two_and_a_half_deviations_is_found_in_nine_of_ten_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PERMUTATIONS", 199)
    told = [
        steps.find(series((100.0, 12), (105.0, 12), spread=0.02, seed=seed)) for seed in range(50)
    ]
    assert sum(any(abs(step.place - 12) <= 2 for step in found) for found in told) >= 45


@pytest.mark.parametrize("count", [0, 1, 5, 6, 8])
def test_too_few_values_show_nothing(count: int) -> None:
    half = count // 2
    assert steps.find(series((1.0, half), (9.0, count - half))) == []


def test_values_that_are_all_the_same_have_no_step() -> None:
    assert steps.find([5.0] * 40) == []


def test_of_a_long_series_the_newest_values_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "NEWEST", 30)
    values = series((50.0, 20), (100.0, 15), (120.0, 15))
    assert [step.place for step in steps.find(values)] == [35]

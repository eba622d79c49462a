from __future__ import annotations

import math

import numpy as np
import pytest

from trilane.lab.analysis import crossing, stats
from trilane.lab.analysis.crossing import At, Crossing


def ratios(centre: float, spread: float, seed: int, blocks: int = 8) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return np.asarray(math.log(centre) + chance.normal(0, spread, blocks))


def between(*log_ratios: np.ndarray, alphas: tuple[float, ...] = (stats.ALPHA,) * 2) -> Crossing:
    """The crossing of arms with these ratios at 100, 10,000 and so on."""
    points = [
        At(100.0 ** (place + 1), each, alpha)
        for place, (each, alpha) in enumerate(zip(log_ratios, alphas, strict=True))
    ]
    return crossing.find(points, seed=1)


def test_the_crossing_lies_between_the_points_with_an_interval() -> None:
    # From 2 to 1/2 over two decades: linear in log-log, so it crosses at 1,000.
    found = between(ratios(2, 0.05, 1), ratios(0.5, 0.05, 2))
    assert found.at == pytest.approx(1000, rel=0.2)
    assert found.at is not None
    assert found.low is not None
    assert found.high is not None
    assert 500 < found.low < found.at < found.high < 2000
    text = crossing.sentence(found, "a", "b", "requests", "elapsed time")
    assert "95 % interval" in text
    assert "requests" in text


def test_more_noise_makes_a_wider_interval() -> None:
    def width(spread: float) -> float:
        found = between(ratios(2, spread, 1), ratios(0.5, spread, 2))
        assert found.low is not None
        assert found.high is not None
        return math.log(found.high / found.low)

    assert width(0.2) > 2 * width(0.02)


def test_no_crossing_is_said_to_be_none() -> None:
    found = between(ratios(2, 0.05, 1), ratios(3, 0.05, 2))
    assert found.at is None
    assert "do not cross" in crossing.sentence(found, "a", "b", "requests", "elapsed time")


def test_a_crossing_that_noise_could_have_made_is_not_shown() -> None:
    found = between(ratios(1.01, 0.5, 3), ratios(0.5, 0.1, 2))
    assert found.low is None
    assert "not shown" in crossing.sentence(found, "a", "b", "requests", "elapsed time") or (
        found.at is None
    )


def test_one_point_cannot_cross() -> None:
    assert crossing.find([At(100, ratios(2, 0.05, 1))], seed=1).at is None
    assert between(ratios(2, 0.05, 1), np.empty(0)).at is None


def test_the_interval_has_the_strictest_level_of_the_points_that_it_rests_on() -> None:
    falling = ratios(2, 0.05, 1), ratios(0.5, 0.05, 2)
    fixed = between(*falling)
    # Nothing was measured at the third point: how strict it would be says nothing.
    looked = between(*falling, np.empty(0), alphas=(0.0202, 0.0067, 0.001))
    assert (fixed.level, looked.level) == (0.95, 0.9933)
    assert looked.low is not None
    assert looked.high is not None
    assert looked.low < (fixed.low or 0) < (fixed.high or 0) < looked.high
    text = crossing.sentence(looked, "a", "b", "requests", "elapsed time")
    assert "99.3 % interval" in text
    assert "95 %" not in text

"""What the rule claims where the truth is known: `docs/method-simulation.md` in a small form."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from synthetic import races
from synthetic.records import altered
from trilane.lab.analysis import comparison, simulation, stats
from trilane.lab.analysis.simulation import Noise, Rates
from trilane.lab.model.comparison import Comparison

MODEL = simulation.modelled(0.03, 1 / 14)
# The measure that decides alone: most of the time goes to the others.
NOISE = Noise("rate alone", lambda chance, runs: MODEL(chance, runs)[:, :1])
# Of 300 tables 5 % are 15; more than 24 come once in a hundred times, and the seed is fixed.
MOST = 24 / 300


def rates(effect: float, tables: int) -> Rates:
    return simulation.simulate(NOISE, arms=3, blocks=10, effect=effect, tables=tables, seed=3)


def test_arms_that_do_not_differ_are_seldom_told_apart() -> None:
    assert rates(0.0, 300).deciding <= MOST


def test_without_holms_correction_they_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "holm", list)
    assert rates(0.0, 300).deciding > MOST


def test_the_rule_finds_nine_tenths_of_what_the_test_alone_finds() -> None:
    found = rates(0.1, 80)
    assert found.alone > 0.6
    assert found.found >= 0.9 * found.alone


def test_a_veto_by_the_reach_of_aa_would_find_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(repeated: stats.Floats) -> float:
        return float(np.exp(np.abs(repeated).max()))

    monkeypatch.setattr(stats, "centre", reach)
    found = rates(0.1, 80)
    assert found.found < 0.9 * found.alone


def test_the_simulation_judges_as_a_comparison_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "RESAMPLES", stats.RESAMPLES)
    shuffle, chance = random.Random(1), np.random.default_rng(1)
    pairs = [(0, 1), (0, 2), (1, 2)]
    seen = set()
    for _ in range(4):
        first, second = simulation._table(NOISE, chance, shuffle, 3, 10)
        first[1] += 0.06
        second[1] += 0.06
        values = np.where(np.isnan(second), first, (first + second) / 2)[..., 0]
        own = [(second - first)[list(pair), :, 0] for pair in pairs]
        made = stats.compare(
            [values[b] - values[a] for a, b in pairs],
            repeated=[each[np.isfinite(each)] for each in own],
            margin=1e-6,
            seed=1,
            valid=[True] * 3,
        )
        expected = [one is not None and one.finding in ("higher", "lower") for one in made]
        claims, _ = simulation.judged(first, second, pairs, 1)
        assert claims[0].tolist() == expected
        seen.update(expected)
    assert seen == {True, False}


def kept(factors: dict[str, float], blocks: int) -> Comparison:
    return comparison.compare(races.race(factors, blocks=blocks, noise=0.03))


def test_recorded_noise_is_that_of_the_runs() -> None:
    race = kept({"h1": 1.0, "h2": 1.5, "h3": 0.6}, 40)
    drawn = simulation.recorded(race)(np.random.default_rng(1), 4000)
    # Neither the arms, which lie far apart, nor the drift of the blocks are in it.
    assert np.std(drawn[:, 0]) == pytest.approx(0.03, rel=0.2)
    # A run keeps its measures together: p50 is what its rate leaves of it.
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(-1)


def test_a_race_without_its_deciding_measure_is_refused() -> None:
    race = kept({"h1": 1.0, "h2": 1.5}, 2)
    race = altered(race, {"arms.0.samples.0.run.rate.requests_per_s": 0.0})
    with pytest.raises(ValueError, match="a run has no requests/s"):
        simulation.recorded(race)


def test_the_print_is_the_same_for_the_same_seed() -> None:
    first, again = (list(simulation.report([NOISE], [(2, 6)], 4, 1)) for _ in range(2))
    assert first == again
    assert first[0].startswith("| noise | arms | blocks | false: table |")
    assert first[2].startswith("| rate alone | 2 | 6 | ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--recorded", "nowhere.json"], "nowhere.json: No such file"),
        (["--recorded", "other.json"], "other.json: not a trilane.comparison/1"),
        (["--recorded", "text.json"], "text.json: "),
        (["--tables", "0"], "--tables 0: at least one race"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text("{}")
    Path("text.json").write_text("not JSON")
    with pytest.raises(SystemExit) as ended:
        simulation.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err

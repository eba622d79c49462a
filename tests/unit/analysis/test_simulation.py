"""What the rule claims where the truth is known: `docs/method-simulation.md` in a small form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from synthetic import folders, races
from synthetic.records import altered
from trilane.lab.analysis import (
    family,
    familywise,
    looks,
    paired,
    recorded_noise,
    simulated_noise,
    simulated_races,
    simulation,
    stats,
)
from trilane.lab.analysis.simulated_noise import Noise
from trilane.lab.analysis.simulation import Ended, Rates
from trilane.lab.model.comparison import Comparison, Look, Ratio

MODEL = Noise("slow runs", simulated_noise.modelled(0.03, 1 / 14))
# The measure that decides alone: most of the time goes to the others.
ALONE = Noise("rate alone", lambda chance, runs: MODEL.draw(chance, runs)[:, :1])
# Of 120 tables 5 % are 6; more than 11 come twice in a hundred times, and the seed is fixed.
TABLES, MOST = 120, 11 / 120


def rates(noise: Noise, tables: int, effects: dict[int, float] | None = None) -> Rates:
    return simulation.simulate(noise, arms=3, blocks=10, tables=tables, seed=3, effects=effects)


def test_a_table_whose_arms_do_not_differ_seldom_claims_that_they_do() -> None:
    found = rates(MODEL, TABLES)
    assert found.false_deciding <= found.false_table <= MOST
    # Nor does what differs in one measure make another seem to.
    assert rates(MODEL, TABLES, {0: 0.1}).false_table <= MOST


def test_with_a_family_for_each_measure_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(familywise, "different", by_measure)
    assert rates(MODEL, TABLES).false_table > MOST


def by_measure(log_ratios: stats.Floats, _shares: stats.Floats, _seed: int) -> stats.Floats:
    """Holm over the three pairs of each measure."""
    p_values = [stats.signed_rank(column, "two-sided") for column in log_ratios.T]
    return np.array([stats.holm(p_values[at : at + 3]) for at in range(0, 18, 3)]).ravel()


def test_the_rule_finds_nine_tenths_of_what_the_test_alone_finds() -> None:
    found = rates(MODEL, 60, {0: 0.1})
    assert found.found_alone > 0.6
    assert found.found >= 0.9 * found.found_alone


def test_a_veto_by_the_reach_of_aa_would_find_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(repeated: stats.Floats) -> float:
        return float(np.exp(np.abs(repeated).max()))

    monkeypatch.setattr(stats, "centre", reach)
    found = rates(ALONE, 60, {0: 0.1})
    assert found.found < 0.9 * found.found_alone


def test_arms_that_differ_by_the_margin_are_seldom_called_equal() -> None:
    apart = rates(MODEL, TABLES, dict.fromkeys(range(6), simulation.MARGIN))
    assert apart.equal_false_deciding <= apart.equal_false_table <= MOST
    near = simulation.simulate(
        Noise("1 %", simulated_noise.modelled(0.01, 0)), arms=3, blocks=10, tables=20, seed=1
    )
    assert near.equal >= 0.9


@pytest.mark.parametrize("alpha", [stats.ALPHA, 0.01])
def test_the_simulation_judges_as_a_comparison_does(
    monkeypatch: pytest.MonkeyPatch, alpha: float
) -> None:
    monkeypatch.setattr(simulation, "RESAMPLES", stats.RESAMPLES)
    races = simulated_races.races(MODEL, 3, 10, 1, {})
    pairs = [(0, 1), (0, 2), (1, 2)]
    seen = set()
    for _ in range(3):
        first, second = next(races)
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
    every = [Look(blocks=blocks, alpha=stats.ALPHA) for blocks in range(6, 21)]
    monkeypatch.setattr(looks, "planned", lambda _most: every)
    assert ended(LOUD).false_table > stats.ALPHA


def test_a_large_difference_is_decided_early_and_a_small_one_late() -> None:
    clear, small = ended(ALONE, {0: 0.3}), ended(ALONE, {0: 0.03})
    assert (clear.blocks, clear.found_fixed) == (10, 1.0)
    assert clear.found > 0.95
    assert small.blocks > clear.blocks


def kept(factors: dict[str, float], blocks: int) -> Comparison:
    return paired.compare(races.race(factors, blocks=blocks, noise=0.03))


def test_recorded_noise_is_that_of_the_runs() -> None:
    race = kept({"h1": 1.0, "h2": 1.5, "h3": 0.6}, 40)
    drawn = recorded_noise.deviations(race)
    # Neither the arms, which lie far apart, nor the drift of the blocks are in it.
    assert np.std(drawn[:, 0]) == pytest.approx(0.03, rel=0.2)
    # A run keeps its measures together: p50 is what its rate leaves of it.
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(-1)


def test_a_race_without_its_deciding_measure_is_refused() -> None:
    race = kept({"h1": 1.0, "h2": 1.5}, 2)
    race = altered(race, {"arms.0.samples.0.run.rate.requests_per_s": 0.0})
    with pytest.raises(ValueError, match="a run has no requests/s"):
        recorded_noise.deviations(race)


def test_the_print_is_the_same_for_the_same_seed() -> None:
    first, again = (list(simulation.report([MODEL], [(2, 6)], 3, 1)) for _ in range(2))
    assert first == again
    assert first[0].startswith("| noise | arms | blocks | false: table |")
    assert first[2].startswith("| slow runs | 2 | 6 | ")
    assert first[3] == ""
    assert first[4].endswith("| equal | alone |")
    assert len(first) == 7
    looked = list(simulation.report_until_decided([ALONE], [(2, 13)], 3, 1))
    assert looked == list(simulation.report_until_decided([ALONE], [(2, 13)], 3, 1))
    assert looked[2].startswith("| rate alone | 2 | 13 | ")
    assert {line.count("|") for line in looked} == {16}
    columns = {line.count("|") for line in first[:3]}, {line.count("|") for line in first[4:]}
    assert [len(counts) for counts in columns] == [1, 1]


def test_a_noise_without_the_cpu_of_the_client_leaves_its_cells_empty() -> None:
    [*_, line] = list(simulation.report([ALONE], [(2, 6)], 2, 1))[:3]
    assert line.endswith("| – | – |")


def test_the_noise_of_a_race_that_was_kept_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation, "SHAPES", [(2, 6)])
    monkeypatch.setattr(simulation, "UNTIL_DECIDED", [(2, 8)])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = folders.race(tmp_path / "trilane", "20261120-100000", {"h1": 1.0, "h2": 1.5})
    for name in (str(kept), "latest"):
        assert simulation.main(["--tables", "2", "--recorded", name]) == 0
        assert f"| {kept.name}, " in capsys.readouterr().out
    file = tmp_path / "noise.json"
    assert simulation.main(["--recorded", "latest", "--keep", str(file)]) == 0
    (recording,) = recorded_noise.of_run("latest")
    assert recorded_noise.of_file(file) == recording
    assert recording.measures[0] == "requests_per_s"
    # Neither arms nor blocks are in it.
    assert np.abs(recording.table.mean(axis=0)).max() < 1e-4
    assert simulation.main(["--tables", "2", "--recorded", str(file)]) == 0
    assert f"| {kept.name}, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--recorded", "runs/nowhere"], "runs/nowhere is not a run folder: there is no such"),
        (["--recorded", "./text"], "result.json"),
        (["--recorded", "other.json"], "other.json holds no noise of a race"),
        (["--keep", "x.json"], "--keep needs --recorded"),
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
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = folders.race(tmp_path, "20261120-100000", {"h1": 1.0, "h2": 1.5})
    (kept / "result.json").write_text("not JSON")
    kept.rename("text")
    Path("other.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        simulation.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_races_that_ended_once_decided_are_compared_as_others_are() -> None:
    # Whether arms differ or not, and so whether a race ends at its first look or later.
    for effects in ({}, {0: 0.1}):
        found = simulation.simulate_compared(
            ALONE, arms=3, most=20, early=(True, True), tables=TABLES, seed=3, effects=effects
        )
        assert found <= MOST
    # An arm that is not the same in both is found, so that what is small above is not nothing.
    assert simulation.simulate_compared(
        Noise("1 %", moved()), arms=3, most=20, early=(True, True), tables=5, seed=3
    )


def moved() -> simulated_noise.Draw:
    """Runs of which those of every second race are 10 % faster."""
    draw, races = simulated_noise.modelled(0.01, 0), 0

    def other(chance: np.random.Generator, runs: int) -> stats.Floats:
        nonlocal races
        races += 1
        moved: stats.Floats = draw(chance, runs) + (races % 2) * np.log(1.1)
        return moved

    return other

"""The blocks of a race: how many, and the order of the arms in each."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilane.cli.race import HELP
from trilane.lab import asked, blocks, race
from trilane.lab.analysis import family
from trilane.lab.analysis.looks import planned
from trilane.lab.asked import Entry, Wanted
from trilane.lab.experiment import describe
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Form
from trilane.lab.model.comparison import Ratio


def wanted(
    arms: int = 3, *, written: int = 10, count: int | None = None, until_decided: bool = False
) -> Form:
    """The form of a race with so many arms, and blocks as a file or who asks says it."""
    made = race.experiment(race.Flags())
    form = made.forms[race.FORM]
    first, second, _ = form.arms
    more = tuple(replace(second, name=f"a{number}") for number in range(arms - 1))
    stats_then = replace(form.stats, blocks=written)
    form = replace(form, arms=form.arms if arms == 3 else (first, *more), stats=stats_then)
    made = replace(made, forms={race.FORM: form})
    return asked.chosen(Wanted(made, race.FORM, blocks=count, until_decided=until_decided))


def order(blocks: int, seed: int) -> list[list[Entry]]:
    entries = asked.order(wanted(count=blocks), seed)
    return [[entry for entry in entries if entry.block == block] for block in range(blocks)]


def test_every_block_holds_every_arm_and_one_of_them_twice_in_turn() -> None:
    for number, block in enumerate(order(20, seed=3)):
        twice = ("h1", "h2", "h3")[number % 3]
        assert sorted((e.arm, e.slot) for e in block) == sorted(
            [("h1", 0), ("h2", 0), ("h3", 0), (twice, 1)]
        )
        assert [entry.position for entry in block] == [0, 1, 2, 3]
        # The second run of an arm comes after its first.
        first, second = (e for e in block if e.arm == twice)
        assert (first.slot, second.slot) == (0, 1)
    assert len({tuple(e.arm for e in block) for block in order(20, seed=3)}) > 5


def test_without_a_second_run_every_block_holds_every_arm_once() -> None:
    chance = random.Random(1)
    assert sorted(blocks.shuffled(["a", "b"], 0, chance, aa=False)) == [("a", 0), ("b", 0)]
    assert blocks.shuffled(["a"], 0, chance, aa=True) == [("a", 0)]


def test_the_order_follows_the_seed() -> None:
    assert order(9, 5) == order(9, 5)
    assert order(9, 5) != order(9, 6)


def test_a_race_has_ten_blocks_however_many_arms_and_never_fewer_than_can_show_anything() -> None:
    assert [wanted(arms).stats.blocks for arms in (1, 3, 27)] == [10] * 3
    assert wanted(written=3).stats.blocks == 6
    assert wanted(count=2).stats.blocks == 2, "who asks for fewer gets them"


def test_a_race_until_it_is_decided_has_at_most_three_times_the_blocks() -> None:
    assert wanted(until_decided=True).stats.blocks == 30
    assert wanted(written=3, until_decided=True).stats.blocks == 18
    assert wanted(count=40, until_decided=True).stats.blocks == 40


def test_a_file_asks_for_blocks_until_each_point_is_decided_within_a_time() -> None:
    matrix = Experiment.load("network-matrix")

    def planned(**asked_for: Any) -> tuple[int, bool, float | None]:
        made = asked.chosen(Wanted(matrix, "small", **asked_for)).stats
        return made.blocks, made.until_decided, made.within_s

    assert planned() == (30, True, 5400.0)
    assert planned(blocks=12, within_s=60.0) == (12, True, 60.0)
    assert planned(publish=True) == (60, True, None), "nothing stays open for want of time"
    said = describe.statistics(matrix.forms["small"])
    assert said.startswith(
        "blocks until each point is decided: 30 at most, those after the first look within "
        "1 h 30 min (60 at most with --publish, however long they take); "
    )
    assert describe.statistics(matrix.forms["small"].quickened()).startswith("6 blocks (")
    assert planned(quick=True) == (6, False, None), "so many are asked for, and neither more"
    assert asked.pointless(Wanted(matrix, "small", quick=True, within_s=60.0))
    form = replace(matrix.forms["small"], stats=replace(matrix.forms["small"].stats, within_s=0.0))
    with pytest.raises(BadExperiment, match=r"stats\.within: must be at least 1, not 0"):
        replace(matrix, forms={"small": form})
    fixed = replace(form, stats=replace(form.stats, within_s=60.0, until_decided=False))
    with pytest.raises(BadExperiment, match=r"stats\.within: .*: add until_decided = true"):
        replace(matrix, forms={"small": fixed})


def test_a_plan_that_looks_is_another_plan_and_is_kept() -> None:
    made = race.experiment(race.Flags())
    fixed, looks = wanted(count=30), wanted(count=30, until_decided=True)
    assert asked.fingerprint(made, fixed) != asked.fingerprint(made, looks)
    again = Experiment.from_dict(replace(made, forms={race.FORM: looks}).to_dict())
    assert again.forms[race.FORM].stats.until_decided
    # Asked for again, it looks without being told.
    assert asked.chosen(Wanted(again, race.FORM, blocks=30)).stats == looks.stats


def test_the_help_names_the_looks_of_a_race() -> None:
    *before, last = (str(look.blocks) for look in planned(wanted(until_decided=True).stats.blocks))
    assert f"after {', '.join(before)} and {last} blocks" in HELP


def test_three_arms_are_told_apart_although_one_block_disagrees() -> None:
    chance = np.random.default_rng(4)
    count = wanted(3).stats.blocks
    arms = chance.normal(0, 0.01, (3, count)) + np.array([[0.0], [0.05], [0.10]])
    # The smallest difference of all, on the other side.
    arms[1, 3] = arms[0, 3] - 0.001
    ratios = [arms[1] - arms[0], arms[2] - arms[0], arms[2] - arms[1]]
    row = Ratio(measure="requests_per_s", arm="h2", to="h1")
    found = family.judge(
        [family.Case(row, each, np.empty(0), valid=True, decides=True) for each in ratios],
        margin=0.05,
        seed=1,
    )
    assert [one.finding for one in found] == ["higher"] * 3

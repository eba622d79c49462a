"""The blocks of a race: how many, and the order of the arms in each."""

from __future__ import annotations

import random

import numpy as np

from trilane.lab import blocks, runner
from trilane.lab.analysis import family
from trilane.lab.arms import arms_for


def test_every_block_holds_every_arm_and_one_of_them_twice_in_turn() -> None:
    planned = runner.order(arms_for("https"), 20, seed=3)
    for number, block in enumerate(planned):
        twice = ("h1", "h2", "h3")[number % 3]
        assert sorted((e.arm.name, e.slot) for e in block) == sorted(
            [("h1", 0), ("h2", 0), ("h3", 0), (twice, 1)]
        )
        assert [entry.position for entry in block] == [0, 1, 2, 3]
        # The second run of an arm comes after its first.
        first, second = (e for e in block if e.arm.name == twice)
        assert (first.slot, second.slot) == (0, 1)
    assert len({tuple(e.arm.name for e in block) for block in planned}) > 5


def test_without_a_second_run_every_block_holds_every_arm_once() -> None:
    chance = random.Random(1)
    assert sorted(blocks.shuffled(["a", "b"], 0, chance, aa=False)) == [("a", 0), ("b", 0)]
    assert blocks.shuffled(["a"], 0, chance, aa=True) == [("a", 0)]


def test_the_order_follows_the_seed() -> None:
    arms = arms_for("https")
    assert runner.order(arms, 9, 5) == runner.order(arms, 9, 5)
    assert runner.order(arms, 9, 5) != runner.order(arms, 9, 6)


def test_three_arms_are_told_apart_although_one_block_disagrees() -> None:
    chance = np.random.default_rng(4)
    arms = chance.normal(0, 0.01, (3, blocks.DEFAULT)) + np.array([[0.0], [0.05], [0.10]])
    # The smallest difference of all, on the other side.
    arms[1, 3] = arms[0, 3] - 0.001
    ratios = [arms[1] - arms[0], arms[2] - arms[0], arms[2] - arms[1]]
    found = family.judge(
        [family.Case(each, np.empty(0), valid=True, decides=True) for each in ratios],
        margin=0.05,
        seed=1,
    )
    assert [one and one.finding for one in found] == ["higher"] * 3

"""The blocks of a race: how many, and the order of the arms in each."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from trilane.lab import asked, blocks, race
from trilane.lab.analysis import comparison, stats
from trilane.lab.asked import Entry, Wanted
from trilane.lab.design.form import Form


def wanted(arms: int = 3, count: int | None = None) -> Form:
    """The form of a race, with so many arms and blocks."""
    made = race.experiment(race.Flags())
    form = made.forms[race.FORM]
    first, second, _ = form.arms
    more = tuple(replace(second, name=f"a{number}") for number in range(arms - 1))
    form = replace(form, arms=form.arms if arms == 3 else (first, *more))
    made = replace(made, forms={race.FORM: form})
    return asked.chosen(Wanted(made, race.FORM, blocks=count))


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


@pytest.mark.parametrize(("arms", "enough"), [(1, 10), (3, 10), (4, 10), (27, 11), (60, 12)])
def test_ten_blocks_or_as_many_as_the_arms_need(arms: int, enough: int) -> None:
    assert wanted(arms).stats.blocks == enough
    assert comparison.comparisons(arms) * 2 / 2**enough <= stats.ALPHA


def test_three_arms_are_told_apart_although_one_block_disagrees() -> None:
    chance = np.random.default_rng(4)
    agree = chance.normal(0.05, 0.01, wanted(3).stats.blocks)
    # The smallest difference of all, on the other side.
    agree[3] = -0.001
    assert 3 * stats.signed_rank(agree, "two-sided") <= stats.ALPHA
    assert 3 * stats.signed_rank(agree[:7], "two-sided") > stats.ALPHA

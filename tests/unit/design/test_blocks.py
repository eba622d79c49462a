"""The blocks of a race: how many, and the order of the arms in each."""

from __future__ import annotations

import pytest

from trilane.lab import race, runner
from trilane.lab.arms import arms_for


def test_every_block_holds_every_arm_and_the_baseline_twice() -> None:
    arms = arms_for("https")
    planned = runner.order(arms, "h2", 20, seed=3)
    for block in planned:
        assert sorted((e.arm.name, e.slot) for e in block) == [
            ("h1", 0),
            ("h2", 0),
            ("h2", 1),
            ("h3", 0),
        ]
        assert [entry.position for entry in block] == [0, 1, 2, 3]
    assert len({tuple(e.arm.name for e in block) for block in planned}) > 5


def test_the_order_follows_the_seed() -> None:
    arms = arms_for("https")
    assert runner.order(arms, "h1", 9, 5) == runner.order(arms, "h1", 9, 5)
    assert runner.order(arms, "h1", 9, 5) != runner.order(arms, "h1", 9, 6)


@pytest.mark.parametrize(("arms", "blocks"), [(1, 6), (2, 6), (3, 7)])
def test_the_default_blocks_can_separate_every_pair(arms: int, blocks: int) -> None:
    assert race.default_blocks(arms) == blocks

"""Blocks: each holds every arm once, and one of them twice, in random order (METHOD §3).

The arm that runs twice changes from block to block: so every arm is set beside itself (A/A), and no
arm's noise stands for that of another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence


def shuffled(
    arms: Sequence[str], block: int, chance: random.Random, *, aa: bool
) -> list[tuple[str, int]]:
    """The runs of one block in their order: the arm, and 0 or 1 for its first or second run.

    `block` counts from 0. With `aa` one of several arms runs twice, the arms in turn.
    """
    places = list(arms)
    if aa and len(arms) > 1:
        places.append(arms[block % len(arms)])
    chance.shuffle(places)
    return [(arm, places[:position].count(arm)) for position, arm in enumerate(places)]

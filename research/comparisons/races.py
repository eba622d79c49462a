"""Simulated races: their runs drawn in blocks of random order, as real ones are made."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping

import numpy as np

from research.comparisons.noise import Noise
from trilane.lab import blocks as order
from trilane.lab.analysis.stats import Floats

_DRIFT = 0.05
"""What a block of the model differs from the next, standard deviation of the logarithm."""


def races(
    noise: Noise, arms: int, blocks: int, seed: int, effects: Mapping[int, float]
) -> Iterator[tuple[Floats, Floats]]:
    """Races without end, of each the logarithms of its first and of its second runs.

    By arm, block and measure; NaN: none. The second arm lies by `effects`, shares by the number of
    the measure, above the others.
    """
    chance = np.random.default_rng(seed)
    shuffle = random.Random(seed)  # noqa: S311 - reproducible, not secret
    names = [str(arm) for arm in range(arms)]
    while True:
        deviations = noise.draw(chance, blocks * (arms + 1))
        slots = np.full((2, arms, blocks, deviations.shape[1]), np.nan)
        runs = iter(deviations)
        for block in range(blocks):
            drift = chance.normal(0, _DRIFT)
            for position, (arm, slot) in enumerate(order.shuffled(names, block, shuffle, aa=True)):
                slots[slot, int(arm), block] = next(runs) + drift + noise.trend * position
        for measure, effect in effects.items():
            slots[:, 1, :, measure] += math.log1p(effect)
        yield slots[0], slots[1]

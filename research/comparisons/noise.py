"""What simulated runs differ by: the noise of a model, or of a race that was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from research.comparisons.recorded_noise import Recorded
from trilane.lab.analysis.stats import Floats

Draw: TypeAlias = Callable[[np.random.Generator, int], Floats]
"""So many runs: their deviations, logarithms, one row per run and one column per measure."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What runs of equal arms differ by."""

    name: str
    draw: Draw
    trend: float = 0.0
    """Added to the logarithm of a run for each run before it in its block."""

    @property
    def measures(self) -> int:
        """How many measures a run has."""
        return len(self.draw(np.random.default_rng(0), 1)[0])


def modelled(spread: float, slow: float) -> Draw:
    """The model: six measures of a race, of which most follow one deviation of the run.

    `spread` is the standard deviation of the rate (its logarithm); a share of `slow` of the runs is
    slower besides, by an exponential deviation of five times `spread`. p50 is what the rate leaves
    of it in a closed model (Little); p99 has twice its noise besides; CPU per request follows the
    rate by half and has half its noise of its own; bytes hardly vary.
    """
    follows = np.array([-1.0, 1.0, 1.0, 0.5, 0.5, 0.0])
    own = spread * np.array([0.0, 0.2, 2.0, 0.5, 0.5, 0.03])

    def draw(chance: np.random.Generator, runs: int) -> Floats:
        shared = chance.normal(0, spread, runs)
        shared += chance.exponential(5 * spread, runs) * (chance.random(runs) < slow)
        noise: Floats = shared[:, None] * follows + chance.normal(0, 1, (runs, len(own))) * own
        return noise

    return draw


def recorded(race: Recorded) -> Draw:
    """The runs of a race, drawn again with replacement; a run keeps its measures together."""
    table = race.table
    return lambda chance, runs: table[chance.integers(0, len(table), runs)]


MODELS = (
    Noise("model, 1 %", modelled(0.01, 0.0)),
    Noise("model, 3 %", modelled(0.03, 0.0)),
    Noise("model, 3 %, 1 run of 14 slow", modelled(0.03, 1 / 14)),
    Noise("model, 3 %, slower by 2 % a run in a block", modelled(0.03, 0.0), trend=0.02),
)

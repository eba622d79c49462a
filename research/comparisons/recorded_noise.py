"""What runs of equal arms differ by, as races found it: the noise that simulations draw from.

The deviations of a race that was kept can be written into a file of their own, a few kilobytes,
so that a simulation on them can be made again where the race is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from trilane.lab.analysis.stats import Floats
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.measures import RACE, Beside, Measure
from trilane.lab.model.record import Record
from trilane.lab.storage import runs, store
from trilane.lab.storage.runs import BadRun

SCHEMA: Literal["trilane.noise/1"] = "trilane.noise/1"
# Digits of a deviation: a hundredth of a percent is less than any of them.
_DIGITS = 5


class Recorded(Record, frozen=True):
    """The noise of one race."""

    schema: Literal["trilane.noise/1"]
    title: str
    """For people: machine, date and length of the race."""
    command: str
    """What the race was typed with."""
    measures: list[str]
    """Names, a column each."""
    deviations: list[list[float]]
    """Logarithms, a row for each run."""

    @property
    def table(self) -> Floats:
        """The deviations, one row per run and one column per measure."""
        return np.array(self.deviations, dtype=float)


def of_run(text: str) -> list[Recorded]:
    """The noise at each point of a run, which is named as `trilane report` takes it.

    Raises:
        BadRun: there is no such run, or it does not have all of its numbers.
    """
    run = runs.load_judged(runs.find(text, store.state_folder(None)))
    machine = run.machine
    about = [str(machine[fact]) for fact in ("cpu", "kernel") if machine.get(fact)]
    try:
        return [
            Recorded(
                schema=SCHEMA,
                title=", ".join([run.name, *about]),
                command=run.manifest.command or "",
                measures=[measure.name for measure in RACE[: left.shape[1]]],
                deviations=np.round(left, _DIGITS).tolist(),
            )
            for left in (deviations(point.comparison) for point in run.points)
        ]
    except ValueError as error:
        raise BadRun(f"{run.name}: {error}") from error


def of_file(path: Path) -> Recorded:
    """The noise that was kept in a file.

    Raises:
        BadRun: it cannot be read, or holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recorded)
    except (OSError, ValueError) as error:
        raise BadRun(f"{path} holds no noise of a race: {error}") from error


def deviations(comparison: Comparison, measures: Sequence[Measure] = RACE) -> Floats:
    """What is left of the logarithms of runs without the mean of the arm and that of the block.

    Enlarged by what taking these two away makes them smaller; one row per run, one column for each
    of the measures up to the first that a run does not have.

    Raises:
        ValueError: a run does not have the first of them.
    """
    rows = [
        (
            number,
            sample.block,
            [measure.read(sample.run, Beside(sample.server)) for measure in measures],
        )
        for number, arm in enumerate(comparison.arms)
        for sample in arm.samples
        if sample.run is not None
    ]
    # NaN where a run does not tell the measure, and NaN is above nothing.
    told = np.array([values for _, _, values in rows], dtype=float)
    whole = [bool((told[:, column] > 0).all()) for column in range(len(measures))]
    count = whole.index(False) if False in whole else len(measures)
    if not count:
        raise ValueError(f"a run has no {measures[0].label}: its noise cannot be drawn")
    arms = np.array([arm for arm, _, _ in rows])
    blocks = np.array([block for _, block, _ in rows])
    left: Floats = np.log(told[:, :count])
    # An arm that ran twice weighs twice in its block: a few rounds settle that.
    for _ in range(10):
        for groups in (arms, blocks):
            for group in np.unique(groups):
                left[groups == group] -= left[groups == group].mean(axis=0)
    free = len(rows) - len(np.unique(arms)) - len(np.unique(blocks)) + 1
    left *= math.sqrt(len(rows) / max(free, 1))
    return left

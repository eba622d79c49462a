"""Where two arms of a sweep cross: the value from which one overtakes the other, with interval.

Between two neighbouring points the log-ratio is taken to be linear in the logarithm of the value.
The interval comes from the bootstrap over blocks: every point is resampled on its own, because the
blocks of different points ran at different times. Points of a run that ends once it is decided may
have ended at different looks: the interval has the strictest level of those that it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trilane.lab.analysis import looks, stats
from trilane.lab.analysis.stats import Floats, hodges_lehmann
from trilane.lab.model import lab
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.measures import BY_NAME


class At(NamedTuple):
    """Two arms at one value of the sweep."""

    value: float
    log_ratios: Floats
    """One of the first arm to the second for each block."""
    alpha: float = stats.ALPHA
    """Chance of a false claim that the table of this point takes."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The value at which the ratio of `arm` to `to` passes 1."""

    at: float | None
    low: float | None
    high: float | None
    share: float
    """Share of the resamples that cross once."""
    level: float
    """Level of the interval."""


def find(points: Sequence[At], seed: int) -> Crossing:
    """Look for one crossing, at points with a positive value and two blocks or more.

    Its interval is told when nearly every resample crosses; otherwise the crossing is not sure.
    """
    usable = [point for point in points if len(point.log_ratios) >= 2 and point.value > 0]
    alpha = min((point.alpha for point in usable), default=stats.ALPHA)
    level = round(1 - alpha, 6)
    if len(usable) < 2:
        return Crossing(None, None, None, 0.0, level)
    scale = np.log([point.value for point in usable])
    rng = np.random.default_rng(seed)
    centres = [float(hodges_lehmann(point.log_ratios)) for point in usable]
    drawn = np.stack(
        [
            hodges_lehmann(
                ratios[rng.integers(0, len(ratios), size=(stats.RESAMPLES, len(ratios)))]
            )
            for _, ratios, _ in usable
        ]
    )
    found = [root for column in drawn.T if (root := _root(scale, column)) is not None]
    at = _root(scale, np.asarray(centres))
    share = len(found) / stats.RESAMPLES
    if at is None or share < 1 - alpha / 2:
        return Crossing(None if at is None else math.exp(at), None, None, share, level)
    low, high = np.quantile(found, [alpha / 2, 1 - alpha / 2])
    return Crossing(math.exp(at), math.exp(float(low)), math.exp(float(high)), share, level)


def _root(scale: Floats, ratios: Floats) -> float | None:
    """Where a broken line passes zero, if it does so once."""
    signs = np.sign(ratios)
    changes = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    if len(changes) != 1:
        return None
    left = int(changes[0])
    share = ratios[left] / (ratios[left] - ratios[left + 1])
    return float(scale[left] + share * (scale[left + 1] - scale[left]))


def sentence(found: Crossing, arm: str, to: str, unit: str, label: str) -> str:
    """The finding for people."""
    if found.at is None:
        return f"{arm} and {to} do not cross once in {label} within the values tried"
    if found.low is None or found.high is None:
        return (
            f"{arm} and {to} may cross in {label} near {found.at:,.0f} {unit}, but only "
            f"{100 * found.share:.0f} % of the resamples do: not shown"
        )
    return (
        f"{arm} and {to} cross in {label} at {found.at:,.0f} {unit} "
        f"({looks.percent(found.level)} interval {found.low:,.0f}–{found.high:,.0f})"
    )


def headline(row: lab.Crossing, first: Comparison) -> str:
    """A crossing with its interval as an answer; `first` is the first point, below it.

    Says who is ahead where, or, if the first point does not have both arms, the finding.
    """
    measure = BY_NAME[row.measure]
    medians = {
        arm.name: arm.summary[row.measure].median
        for arm in first.arms
        if arm.name in (row.arm, row.to)
    }
    one, other = medians.get(row.arm), medians.get(row.to)
    if one is None or other is None or row.at is None:
        return f"{row.text}."
    leads = (one > other) == (measure.better == "higher")
    below, above = (row.arm, row.to) if leads else (row.to, row.arm)
    called = {arm.name: arm.title for arm in first.arms}
    return (
        f"{called[below]} is ahead below {row.at:,.0f} {row.unit} "
        f"({row.low:,.0f}–{row.high:,.0f}), {called[above]} above."
    )

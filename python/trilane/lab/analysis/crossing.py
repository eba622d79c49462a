"""Where two arms of a sweep cross: the value from which one overtakes the other, with interval.

Between two neighbouring points the log-ratio is taken to be linear in the logarithm of the value.
The interval comes from the bootstrap over blocks: every point is resampled on its own, because the
blocks of different points ran at different times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilane.lab.analysis import looks, stats
from trilane.lab.analysis.stats import Floats, hodges_lehmann


@dataclass(frozen=True, slots=True)
class Crossing:
    """The value at which the ratio of `arm` to `to` passes 1."""

    at: float | None
    low: float | None
    high: float | None
    share: float
    """Share of the resamples that cross once."""


def find(
    values: Sequence[float],
    log_ratios: Sequence[Floats],
    seed: int,
    alpha: float = stats.ALPHA,
) -> Crossing:
    """Look for one crossing; `log_ratios` has one array (a number per block) per value.

    `alpha` is the chance that the interval misses. It is told when nearly every resample crosses;
    otherwise the crossing is not sure.
    """
    usable = [
        (value, ratios)
        for value, ratios in zip(values, log_ratios, strict=True)
        if len(ratios) >= 2 and value > 0
    ]
    if len(usable) < 2:
        return Crossing(None, None, None, 0.0)
    scale = np.log([value for value, _ in usable])
    rng = np.random.default_rng(seed)
    centres = [float(hodges_lehmann(ratios)) for _, ratios in usable]
    drawn = np.stack(
        [
            hodges_lehmann(
                ratios[rng.integers(0, len(ratios), size=(stats.RESAMPLES, len(ratios)))]
            )
            for _, ratios in usable
        ]
    )
    found = [root for column in drawn.T if (root := _root(scale, column)) is not None]
    at = _root(scale, np.asarray(centres))
    share = len(found) / stats.RESAMPLES
    if at is None or share < 1 - alpha / 2:
        return Crossing(None if at is None else math.exp(at), None, None, share)
    low, high = np.quantile(found, [alpha / 2, 1 - alpha / 2])
    return Crossing(math.exp(at), math.exp(float(low)), math.exp(float(high)), share)


def _root(scale: Floats, ratios: Floats) -> float | None:
    """Where a broken line passes zero, if it does so once."""
    signs = np.sign(ratios)
    changes = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    if len(changes) != 1:
        return None
    left = int(changes[0])
    share = ratios[left] / (ratios[left] - ratios[left + 1])
    return float(scale[left] + share * (scale[left + 1] - scale[left]))


def sentence(
    found: Crossing, arm: str, to: str, unit: str, label: str, alpha: float = stats.ALPHA
) -> str:
    """The finding for people; `alpha` is that of `find`."""
    if found.at is None:
        return f"{arm} and {to} do not cross once in {label} within the values tried"
    if found.low is None or found.high is None:
        return (
            f"{arm} and {to} may cross in {label} near {found.at:,.0f} {unit}, but only "
            f"{100 * found.share:.0f} % of the resamples do: not shown"
        )
    return (
        f"{arm} and {to} cross in {label} at {found.at:,.0f} {unit} "
        f"({looks.percent(1 - alpha)} interval {found.low:,.0f}–{found.high:,.0f})"
    )

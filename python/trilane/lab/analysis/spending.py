"""How much each look at a budget may spend of the chance of a wrong answer, and the answer.

A budget asks on which side of a limit a ratio lies. Two answers can be wrong, "breached" and "met",
and never both: each gets `SIDE` of chance, over all looks together. The power family of Kim and
DeMets (1987, "Design and analysis of group sequential tests based on the type I error spending rate
function") says how much of it is spent after a part t of the blocks: `SIDE` * t ** `POWER`. From
that follow the bounds, look after look, as Lan and DeMets (1983, "Discrete sequential boundaries
for clinical trials") derive them: a sum of n independent differences walks, and bound k is where so
much of what has crossed no bound before crosses this one. The level of each look is the tail of the
normal distribution beyond its bound. The test at a look is not normal but an exact rank test at
that level, as Jennison and Turnbull (2000, "Group Sequential Methods", §4.4) do with Student's t.
Intervals of that level are repeated confidence intervals (Jennison and Turnbull 1989): they hold at
all looks at once, whatever the reason to stop.

Spending as O'Brien and Fleming would, which is usual, leaves 0.005 % for a look after a third of
thirty blocks, and ten blocks that all agree have a p of 0.1 %: that look could never end a run.
Bonferroni's correction, which `looks` has for whole tables, forgets that the looks share blocks:
the last of four would get 1.0 % of 2.5 % instead of 1.9 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from trilane.lab.analysis import stats
from trilane.lab.analysis.stats import ALPHA, Floats, Interval

SIDE = ALPHA / 2
"""Chance that a budget is called breached that is none, over all looks, or met that is not."""
POWER = 2.0
# Levels are rounded down to so much, for numbers that can be read.
_STEP = 1e-5
# Nodes of the integration: with more of them no digit changes that is kept.
_NODES = 128
# Standard deviations beyond which there is nothing.
_REACH = 9.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What blocks say of a budget."""

    interval: Interval
    """Of the ratio; each of its ends misses with the chance that the look has."""
    p: float
    """Of the answer, exact signed-rank, one-sided: that the ratio is at the limit nevertheless."""
    met: bool | None
    """Whether the budget is kept; None: the blocks cannot tell."""


def spent(part: float) -> float:
    """Chance of a wrong answer that is spent after this part of the blocks, from 0 to 1."""
    return SIDE * float(part**POWER)


def levels(blocks: Sequence[int]) -> list[float]:
    """Level of one side at each look, which are after so many blocks, the last one after all."""
    tails = (float(scipy.special.ndtr(-bound)) for bound in bounds(blocks))
    return [math.floor(tail / _STEP + 1e-6) * _STEP for tail in tails]


def bounds(blocks: Sequence[int], spend: Callable[[float], float] = spent) -> list[float]:
    """Bound of one side at each of the looks, in standard deviations of the sum of so many blocks.

    `spend` is the spending function: it grows from nothing at 0 to the whole chance at 1.
    """
    found = []
    # The walk where it has crossed no bound yet: places, and the chance of each.
    places, chances = np.zeros(1), np.ones(1)
    before = gone = 0.0
    for look in blocks:
        part = look / blocks[-1]
        step, spread = math.sqrt(part - before), math.sqrt(part)
        share = spend(part) - gone
        bound = _bound(places, chances, step, spread, share)
        found.append(bound)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        low, high = -_REACH * spread, bound * spread
        to = low + (high - low) * (nodes + 1) / 2
        density = np.exp(-(((to[:, None] - places) / step) ** 2) / 2) @ chances
        chances = density * weights * (high - low) / (2 * step * math.sqrt(2 * math.pi))
        places, before, gone = to, part, spend(part)
    return found


def _bound(places: Floats, chances: Floats, step: float, spread: float, share: float) -> float:
    """Standard deviations that the walk is beyond with the chance `share` after another step."""

    def over(bound: float) -> float:
        return float(chances @ scipy.special.ndtr((places - bound * spread) / step)) - share

    return float(scipy.optimize.brentq(over, -_REACH, _REACH))


def smallest_p(blocks: int) -> float:
    """The smallest p of one side that so many blocks can have: where all of them agree."""
    return 0.5**blocks


def judge(
    log_ratios: Floats,
    low: float,
    high: float,
    *,
    seed: int,
    side: float = SIDE,
    aa: float | None = None,
    resamples: int = stats.RESAMPLES,
) -> Judged | None:
    """On which side of its limits a ratio lies; None below two blocks.

    `log_ratios` has one for each block, NaN where it has none; `low` and `high` are the ratios that
    the budget allows. The whole interval has to lie within them or beyond one of them, and the
    exact test to agree; both at the level `side` of this look. A breach must besides lie farther
    beyond the limit than `aa`, the centre of the ratios of the arms to themselves, is from 1.
    """
    samples = stats.known(log_ratios)
    log_interval = stats.bootstrap(samples, stats.hodges_lehmann, seed, resamples, alpha=2 * side)
    if log_interval is None:
        return None
    interval = stats.exponential(log_interval)
    open_ = Judged(interval, p=1.0, met=None)
    if low <= interval.low and interval.high <= high:
        p = max(_p(samples, low, "greater"), _p(samples, high, "less"))
        return replace(open_, p=p, met=True if p <= side else None)
    if interval.low > high:
        limit, p = high, _p(samples, high, "greater")
    elif interval.high < low:
        limit, p = low, _p(samples, low, "less")
    else:
        return open_
    shown = p <= side and stats.beyond(interval.centre / limit, aa)
    return replace(open_, p=p, met=False if shown else None)


def _p(samples: Floats, limit: float, alternative: stats.Alternative) -> float:
    """p that the ratio is no further than the limit on this side; no ratio lies below zero."""
    if limit <= 0:
        return 0.0
    return stats.signed_rank(samples - math.log(limit), alternative)

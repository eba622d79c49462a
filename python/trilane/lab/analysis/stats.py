"""Statistics of one comparison: what may be claimed from a few blocks of runs.

The unit is the block. Every function takes one number per block, usually the logarithm of the ratio
between two arms inside that block, so that drift of the machine cancels.

Estimate
    The Hodges-Lehmann centre (the median of all pairwise means) of the log-ratios.
Interval
    Percentile bootstrap over blocks. With few blocks the plain percentile interval is too narrow,
    so its percentiles are widened as Hesterberg (2015, "What Teachers Should Know About the
    Bootstrap") derives: alpha/2 becomes Phi(-sqrt(n / (n - 1)) * t(alpha/2, n - 1)).
Test
    Exact Wilcoxon signed-rank, with mid-ranks where histogram buckets make ties; zeros are left
    out. Of many comparisons `familywise` adjusts the p, and `family` judges them together.
No difference
    Two one-sided signed-rank tests against a margin (TOST), adjusted likewise.
Beside itself (A/A)
    Where an arm ran twice in a block, the log-ratio of its second run to its first: what order and
    machine make of no difference. A ratio that its centre reaches is not claimed (METHOD §3).
    Only the centre vetoes: the noise around it is in the interval and the test already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

# SciPy imports its parts when they are first asked for: of these only `special`, as `stats`, which
# has the same and more, takes a second more, which every race would take longer.
import scipy
from numpy.typing import NDArray

from trilane.lab.model.comparison import Finding

Floats: TypeAlias = NDArray[np.float64]
Alternative: TypeAlias = Literal["two-sided", "less", "greater"]
Statistic: TypeAlias = Callable[[Floats], Floats]

ALPHA = 0.05
"""Chance of a false claim of a whole table; every p that is shown is compared with it."""
# Fewer log-ratios of arms to themselves than this have no centre to speak of.
_LEAST_REPEATED = 4
RESAMPLES = 9_999
# Resamples of more blocks are hardly ever alike; those of 7 are of 1,716 kinds.
_MANY = 9
LEAST_BLOCKS = 6
"""With fewer no p can be small enough: the smallest two-sided one of n blocks is 2 / 2**n."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A centre and its interval, in the unit of the data (ratios for ratios)."""

    centre: float
    low: float
    high: float


def median(samples: Floats) -> Floats:
    """Median over the last axis of samples without NaN."""
    # NumPy's own selects with partition, several times slower than its vectorised sort.
    ordered = np.sort(samples, axis=-1)
    count = samples.shape[-1]
    middle = ordered[..., (count - 1) // 2] + ordered[..., count // 2]
    return np.asarray(middle / 2, dtype=np.float64)


def hodges_lehmann(samples: Floats) -> Floats:
    """Median of the Walsh averages (x_i + x_j) / 2, i <= j, over the last axis."""
    first, second = np.triu_indices(samples.shape[-1])
    sums = samples[..., first]
    sums += samples[..., second]
    # Halving the median alone spares a pass over all of them.
    return np.asarray(median(sums) / 2, dtype=np.float64)


def bootstrap(
    samples: Floats,
    statistic: Statistic,
    seed: int,
    resamples: int = RESAMPLES,
    *,
    alpha: float = ALPHA,
) -> Interval | None:
    """`statistic` of `samples` with its bootstrap interval; None below two blocks.

    `statistic` must not depend on the order of the samples: it is computed once for all resamples
    that are alike. `alpha` is the chance that the interval misses, 5 % for one of 95 %.
    """
    blocks = len(samples)
    if blocks < 2:
        return None
    distinct, which = _draws(seed, blocks, resamples)
    drawn = statistic(samples[distinct])[which]
    tail = _widened_tail(blocks, alpha)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(statistic(samples)), float(low), float(high))


@lru_cache(maxsize=4)
def _draws(seed: int, blocks: int, resamples: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Resamples that differ, as blocks, and which of them each one is.

    They are the same for every measure and pair of a table.
    """
    drawn = np.random.default_rng(seed).integers(0, blocks, size=(resamples, blocks))
    if blocks > _MANY:
        return drawn, np.arange(resamples, dtype=np.intp)
    ordered = np.sort(drawn, axis=-1)
    keys = ordered @ blocks ** np.arange(blocks)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return ordered[first], which


def signed_rank(differences: Floats, alternative: Alternative) -> float:
    """p of the Wilcoxon signed-rank test that `differences` centre on zero."""
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    # Mid-ranks are whole or half: twice as much of each is whole.
    sizes = np.abs(moved)
    placed = np.sort(sizes)
    ranks = 1 + placed.searchsorted(sizes, "left") + placed.searchsorted(sizes, "right")
    seen = int(ranks[moved > 0].sum())
    chances = _rank_sums(tuple(sorted(ranks.tolist())))
    below, above = float(chances[: seen + 1].sum()), float(chances[seen:].sum())
    if alternative == "two-sided":
        return min(1.0, 2 * min(below, above))
    return below if alternative == "less" else above


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...]) -> Floats:
    """The chance of each sum of ranks when every rank is in it or not, as a coin falls."""
    chances = np.zeros(sum(ranks) + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    return chances


def equivalence(log_ratios: Floats, margin: float) -> float:
    """p of TOST: small when the ratio lies between 1 / (1 + margin) and 1 + margin."""
    bound = math.log1p(margin)
    return max(signed_rank(log_ratios + bound, "greater"), signed_rank(log_ratios - bound, "less"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the order given."""
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = worst
    return adjusted


def log_ratios(numerator: Floats, denominator: Floats) -> Floats:
    """Log-ratio in each block; NaN where a value is missing or not positive."""
    usable = np.isfinite(numerator) & np.isfinite(denominator) & (numerator > 0) & (denominator > 0)
    found = np.full(len(numerator), np.nan)
    found[usable] = np.log(numerator[usable] / denominator[usable])
    return found


def known(values: Floats) -> Floats:
    """The values that are there: without NaN."""
    return np.asarray(values[np.isfinite(values)], dtype=np.float64)


def centre(repeated: Floats) -> float | None:
    """Centre of ratios of arms to themselves, from log-ratios; None for fewer than four."""
    if len(repeated) < _LEAST_REPEATED:
        return None
    return math.exp(float(hodges_lehmann(repeated)))


def judge(
    interval: Interval, p_holm: float, p_tost: float, aa: float | None, margin: float
) -> Finding:
    """What one comparison of valid runs shows; `interval` and `aa` are ratios.

    That there is no difference beyond the margin takes the two tests, and an interval that lies
    within it: whoever reads both reads the same.
    """
    shown = side(interval, p_holm)
    if shown is not None and beyond(interval.centre, aa):
        return shown
    return "no_difference" if p_tost <= ALPHA and within(interval, margin) else "undecided"


def within(interval: Interval, margin: float) -> bool:
    """Whether an interval of ratios lies between 1 / (1 + margin) and 1 + margin."""
    return interval.low >= 1 / (1 + margin) and interval.high <= 1 + margin


def side(interval: Interval, p_holm: float) -> Literal["higher", "lower"] | None:
    """On which side of 1 the test and the interval place a ratio; None on neither."""
    if p_holm <= ALPHA and interval.low > 1:
        return "higher"
    if p_holm <= ALPHA and interval.high < 1:
        return "lower"
    return None


def beyond(ratio: float, aa: float | None) -> bool:
    """Whether a ratio is farther from 1 than the centre of A/A; yes where that is unknown."""
    return aa is None or abs(math.log(ratio)) > abs(math.log(aa))


def exponential(interval: Interval) -> Interval:
    """An interval of log-ratios as one of ratios."""
    return Interval(math.exp(interval.centre), math.exp(interval.low), math.exp(interval.high))


def _widened_tail(blocks: int, alpha: float) -> float:
    reach = math.sqrt(blocks / (blocks - 1)) * float(scipy.special.stdtrit(blocks - 1, alpha / 2))
    return float(scipy.special.ndtr(reach))

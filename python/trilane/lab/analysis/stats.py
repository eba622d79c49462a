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
    out. Holm's step-down over the comparisons of one measure.
No difference
    Two one-sided signed-rank tests against a margin (TOST), Holm over the same family.
Beside itself (A/A)
    Where an arm ran twice in a block, the log-ratio of its second run to its first: what order and
    machine make of no difference. A ratio that its centre reaches is not claimed (METHOD §3).
    Only the centre vetoes: the noise around it is in the interval and the test already.

The smallest two-sided p that n blocks can give is 2 / 2**n. Six blocks give 0.031: enough for one
comparison, never for two (Holm doubles it). `blocks_needed` says how many a family needs at least,
and then all blocks must agree: with ten, three arms are told apart although one block disagrees.
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
POWER = 0.8
# Fewer log-ratios of arms to themselves than this have no centre to speak of.
LEAST_REPEATED = 4
RESAMPLES = 9_999


@dataclass(frozen=True, slots=True)
class Interval:
    """A centre and its 95 % interval, in the unit of the data (ratios for ratios)."""

    centre: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm against another on one measure: ratio of the two, within blocks."""

    ratio: float
    low: float
    high: float
    p: float
    p_holm: float
    p_tost: float
    finding: Finding
    blocks: int
    aa: float | None
    """Centre of the ratios of both arms to themselves; None where too few blocks have one."""
    vetoed: bool
    """The test and the interval show a difference, which `aa` reaches: nothing is claimed."""
    more_blocks: int | None
    """How many more blocks would decide, were they like these; None where none are missing."""


def blocks_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """Fewest blocks at which every one of `comparisons` can still be significant after Holm."""
    return math.ceil(math.log2(2 * max(comparisons, 1) / alpha))


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
    return median((samples[..., first] + samples[..., second]) / 2)


def bootstrap(
    samples: Floats, statistic: Statistic, seed: int, resamples: int = RESAMPLES
) -> Interval | None:
    """`statistic` of `samples` with its 95 % bootstrap interval; None below two blocks."""
    blocks = len(samples)
    if blocks < 2:
        return None
    rng = np.random.default_rng(seed)
    drawn = statistic(samples[rng.integers(0, blocks, size=(resamples, blocks))])
    tail = _widened_tail(blocks)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(statistic(samples)), float(low), float(high))


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
    """Per-block log-ratios of the blocks where both values exist and are positive."""
    usable = np.isfinite(numerator) & np.isfinite(denominator) & (numerator > 0) & (denominator > 0)
    return np.asarray(np.log(numerator[usable] / denominator[usable]), dtype=np.float64)


def noise_floor(repeated: Floats, seed: int) -> Interval | None:
    """Ratio of arms to themselves (A/A), from log-ratios of two runs; None below two."""
    interval = bootstrap(repeated, hodges_lehmann, seed)
    return interval and exponential(interval)


def centre(repeated: Floats) -> float | None:
    """Centre of ratios of arms to themselves, from log-ratios; None for fewer than four."""
    if len(repeated) < LEAST_REPEATED:
        return None
    return math.exp(float(hodges_lehmann(repeated)))


def compare(
    pairs: Sequence[Floats],
    *,
    repeated: Sequence[Floats],
    margin: float,
    seed: int,
    valid: Sequence[bool],
) -> list[Comparison | None]:
    """Judge a family of comparisons on one measure.

    `pairs` holds the log-ratios of each comparison, `repeated` those of its own two arms to
    themselves; `valid` says whether all its runs are valid. A difference is named only when the
    interval excludes 1, the p survives Holm over the family and the ratio lies beyond the centre of
    `repeated`. None stands for a comparison with fewer than two blocks.
    """
    judged = [index for index, samples in enumerate(pairs) if len(samples) >= 2]
    two_sided = [signed_rank(pairs[index], "two-sided") for index in judged]
    adjusted = dict(zip(judged, zip(two_sided, holm(two_sided), strict=True), strict=True))
    tost = holm([equivalence(pairs[index], margin) for index in judged])
    equal = dict(zip(judged, tost, strict=True))
    found: list[Comparison | None] = []
    for index, samples in enumerate(pairs):
        log_interval = bootstrap(samples, hodges_lehmann, seed)
        if log_interval is None:
            found.append(None)
            continue
        interval = exponential(log_interval)
        p, p_holm = adjusted[index]
        aa = centre(repeated[index])
        finding: Finding = "invalid"
        if valid[index]:
            finding = judge(interval, p_holm, equal[index], aa)
        vetoed = finding == "undecided" and side(interval, p_holm) is not None
        found.append(
            Comparison(
                ratio=interval.centre,
                low=interval.low,
                high=interval.high,
                p=p,
                p_holm=p_holm,
                p_tost=equal[index],
                finding=finding,
                blocks=len(samples),
                aa=aa,
                vetoed=vetoed,
                more_blocks=more_blocks(log_interval, len(samples), margin, len(judged))
                if finding == "undecided" and not vetoed
                else None,
            )
        )
    return found


def judge(interval: Interval, p_holm: float, p_tost: float, aa: float | None) -> Finding:
    """What one comparison of valid runs shows; `interval` and `aa` are ratios."""
    shown = side(interval, p_holm)
    if shown is not None and beyond(interval.centre, aa):
        return shown
    return "no_difference" if p_tost <= ALPHA else "undecided"


def more_blocks(log_interval: Interval, blocks: int, margin: float, family: int) -> int:
    """About how many more blocks would show a difference, or that there is none.

    Were they like the `blocks` behind this interval of the log-ratio: as many as let a normal test
    of one of `family` comparisons succeed in four of five times. An estimate to plan with: nobody
    may go on until a result pleases.
    """
    spread = math.sqrt(blocks) * (log_interval.high - log_interval.low) / 2
    spread /= -float(scipy.special.stdtrit(blocks - 1, ALPHA / 2))
    missing = abs(log_interval.centre)
    # Two sides for a difference, one for each of the two tests of no difference.
    targets = [(missing, ALPHA / 2), (math.log1p(margin) - missing, ALPHA)]
    needed = min(
        (
            (spread * _standard_errors(alpha / family) / distance) ** 2
            for distance, alpha in targets
            if distance > 0
        ),
        default=0.0,
    )
    return max(1, math.ceil(needed) - blocks, blocks_needed(family) - blocks)


def _standard_errors(alpha: float) -> float:
    """How far a mean must lie from a limit for a test at `alpha` to succeed with `POWER`."""
    return float(scipy.special.ndtri(1 - alpha) + scipy.special.ndtri(POWER))


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


def _widened_tail(blocks: int) -> float:
    reach = math.sqrt(blocks / (blocks - 1)) * float(scipy.special.stdtrit(blocks - 1, ALPHA / 2))
    return float(scipy.special.ndtr(reach))

"""Statistics of two independent sets of blocks: what may be claimed from two runs.

The blocks of one run and those of another met the machine at different times, so nothing pairs
them, and `stats`, which works on ratios inside a block, does not apply. Every function takes the
logarithms of two samples; a shift between them is the logarithm of the ratio B / A.

Estimate
    The Hodges-Lehmann shift: the median of all differences between a value of B and one of A.
Interval
    Percentile bootstrap that draws the blocks of A and of B apart from each other. It is widened as
    in `stats`, for two samples: the normal quantile is replaced by Student's t with Welch's degrees
    of freedom, times the square root of the unbiased over the bootstrap variance of the difference.
Test
    Mann-Whitney, exact; with ties the exact permutation distribution. Holm's step-down over the
    comparisons of one measure.
No difference
    Two one-sided Mann-Whitney tests against a margin (TOST), Holm over the same family.

The smallest two-sided p that n and m values can give is 2 / C(n + m, n): 0.1 for three and three,
0.029 for four and four, 0.0022 for six and six.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from trilane.lab.analysis import stats
from trilane.lab.analysis.stats import ALPHA, Floats, Interval
from trilane.lab.model.comparison import Finding, Floor

# With ties the permutations are enumerated up to this many (8 against 8), then sampled.
_EXACT_PERMUTATIONS = 12_870
# SciPy's exact distribution without ties is quick up to about a hundred values on each side.
_EXACT_PAIRS = 10_000
# Differences held at once: 1.6 MB, which a cache can hold.
_CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class Contrast:
    """B against A on one measure: their ratio, from two independent samples."""

    ratio: float
    low: float
    high: float
    p: float
    p_holm: float
    p_tost: float
    finding: Finding
    a_values: int
    b_values: int


def smallest_p(a_values: int, b_values: int) -> float:
    """The smallest two-sided p that samples of these sizes can give."""
    if min(a_values, b_values) == 0:
        return 1.0
    return min(1.0, 2 / math.comb(a_values + b_values, a_values))


def values_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """Fewest values on each side at which all of `comparisons` can be significant after Holm."""
    return next(
        count for count in range(2, 100) if smallest_p(count, count) * max(comparisons, 1) <= alpha
    )


def shift(a: Floats, b: Floats) -> float:
    """Hodges-Lehmann shift from `a` to `b`."""
    return float(np.median(b[:, None] - a[None, :]))


def interval(a: Floats, b: Floats, seed: int, resamples: int = stats.RESAMPLES) -> Interval | None:
    """`shift` with its 95 % bootstrap interval; None below two values on either side."""
    if min(len(a), len(b)) < 2:
        return None
    centre = shift(a, b)
    tail = _widened_tail(a, b)
    if tail is None:
        # Neither side varies: there is nothing to draw.
        return Interval(centre, centre, centre)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // (len(a) * len(b)))
    drawn = []
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        first = a[rng.integers(0, len(a), size=(rows, len(a)))]
        second = b[rng.integers(0, len(b), size=(rows, len(b)))]
        differences = second[:, :, None] - first[:, None, :]
        drawn.append(stats.median(differences.reshape(rows, -1)))
    low, high = np.quantile(np.concatenate(drawn), [tail, 1 - tail])
    return Interval(centre, float(low), float(high))


def rank_sum(
    a: Floats, b: Floats, alternative: Literal["two-sided", "less", "greater"], seed: int
) -> float:
    """p of the Mann-Whitney test that `b` lies where `a` does, or (one-sided) that it does not."""
    joined = np.concatenate([a, b])
    if len(np.unique(joined)) == len(joined):
        method: Literal["exact", "asymptotic"] = (
            "exact" if len(a) * len(b) <= _EXACT_PAIRS else "asymptotic"
        )
        return float(scipy.stats.mannwhitneyu(b, a, alternative=alternative, method=method).pvalue)
    permutations = math.comb(len(joined), len(a))
    method_ties = scipy.stats.PermutationMethod(
        n_resamples=permutations if permutations <= _EXACT_PERMUTATIONS else stats.RESAMPLES,
        rng=np.random.default_rng(seed),
    )
    return float(scipy.stats.mannwhitneyu(b, a, alternative=alternative, method=method_ties).pvalue)


def equivalence(a: Floats, b: Floats, margin: float, seed: int) -> float:
    """p of TOST: small when the ratio lies between 1 / (1 + margin) and 1 + margin."""
    bound = math.log1p(margin)
    return max(
        rank_sum(a, b + bound, "greater", seed),
        rank_sum(a, b - bound, "less", seed),
    )


def beyond(a: Floats, b: Floats, limit: float, *, above: bool, seed: int) -> float:
    """p of the one-sided test that the ratio lies above (or below) `limit`."""
    return rank_sum(a, b - math.log(limit), "greater" if above else "less", seed)


def compare(
    pairs: Sequence[tuple[Floats, Floats]],
    *,
    floors: Sequence[Floor | None],
    margin: float,
    seed: int,
    valid: Sequence[bool],
    resamples: int = stats.RESAMPLES,
) -> list[Contrast | None]:
    """Judge a family of comparisons on one measure.

    `pairs` holds the logarithms of the values of A and of B for each comparison, `floors` what arms
    were to themselves in the two runs, `valid` whether the runs of both sides are. A difference is
    named under the three conditions of `stats.compare`. None stands for fewer than two values on a
    side.
    """
    judged = [index for index, (a, b) in enumerate(pairs) if min(len(a), len(b)) >= 2]
    two_sided = {index: rank_sum(*pairs[index], "two-sided", seed) for index in judged}
    adjusted = dict(zip(judged, stats.holm(list(two_sided.values())), strict=True))
    tost = stats.holm([equivalence(*pairs[index], margin, seed) for index in judged])
    equal = dict(zip(judged, tost, strict=True))
    found: list[Contrast | None] = []
    for index, (a, b) in enumerate(pairs):
        logs = interval(a, b, seed, resamples)
        if logs is None:
            found.append(None)
            continue
        ratios = stats.exponential(logs)
        finding: Finding = "invalid"
        if valid[index]:
            floor = floors[index]
            centre = None if floor is None else floor.ratio
            finding = stats.judge(ratios, adjusted[index], equal[index], centre, margin)
        found.append(
            Contrast(
                ratio=ratios.centre,
                low=ratios.low,
                high=ratios.high,
                p=two_sided[index],
                p_holm=adjusted[index],
                p_tost=equal[index],
                finding=finding,
                a_values=len(a),
                b_values=len(b),
            )
        )
    return found


def _widened_tail(a: Floats, b: Floats) -> float | None:
    """The percentile to read instead of 2.5 %; None when no value varies."""
    first, second = float(np.var(a, ddof=1)) / len(a), float(np.var(b, ddof=1)) / len(b)
    total = first + second
    if total <= 0:
        return None
    freedom = total**2 / (first**2 / (len(a) - 1) + second**2 / (len(b) - 1))
    # What the bootstrap, which divides by n and not by n - 1, makes of the same variance.
    drawn = first * (len(a) - 1) / len(a) + second * (len(b) - 1) / len(b)
    reach = math.sqrt(total / drawn) * float(scipy.stats.t.ppf(ALPHA / 2, freedom))
    return float(scipy.stats.norm.cdf(reach))

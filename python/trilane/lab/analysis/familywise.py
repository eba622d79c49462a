"""p of many comparisons of the same blocks, adjusted so that few whole tables hold a false claim.

The family is every measure of every pair of arms that a table compares. Where nothing differs, the
log-ratios of a block are as likely as the same with the other sign, all of them at once: so the
signs of whole blocks are flipped, which keeps what measures and pairs have in common, and the
strongest comparison of the table is set beside the strongest of each flipped one (Westfall and
Young 1993, step-down maxT: what is stronger is left out before the next is judged). Up to
`EXACT_BLOCKS` blocks every pattern of signs is tried; of more, a seeded sample.

The strength of a comparison is the p of Student's t of its log-ratios, each no larger than twice
the median of their sizes (Huber's limit, 1.345 standard deviations of normal noise), so that one
slow run does not hide what the others show. It only orders: the flips say how rare it is, whatever
the noise. Unlike the rank test it tells a large difference from a small one where all blocks agree,
without which no table of many comparisons could be decided by ten blocks. A p divided by its weight
is compared, so that the measure that decides gets `DECIDING` of the chance of a false claim, and
what it does not need goes to the others.

SciPy has the flips of one comparison (`scipy.stats.permutation_test`) and adjustments that know no
correlation (`false_discovery_control`), neither of which is this.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from trilane.lab.analysis.stats import Floats

EXACT_BLOCKS = 12
_PATTERNS = 1 << EXACT_BLOCKS
DECIDING = 0.8
"""Share of the chance of a false claim that the comparisons of the deciding measure get."""
# Log-ratios count up to so many medians of their sizes.
_LIMIT = 2.0
# Below this share of noise in the squares, equal patterns would differ by the error of rounding.
_LEAST_NOISE = 1e-9
_ROUNDING = 1e-5


def weights(decides: Sequence[bool]) -> Floats:
    """Weight of each comparison, by whether it is one of the measure that decides; their sum is 1.

    Where all decide, or none does, they share alike.
    """
    deciding = np.asarray(decides, dtype=np.bool_)
    some = int(deciding.sum())
    others = len(deciding) - some
    if some == 0 or others == 0:
        return np.full(len(deciding), 1 / max(len(deciding), 1))
    return np.where(deciding, DECIDING / some, (1 - DECIDING) / others)


def smallest_p(blocks: int) -> float:
    """The smallest adjusted p that so many blocks can have, two-sided: where all of them agree."""
    return 2 / min(1 << blocks, _PATTERNS)


def different(log_ratios: Floats, shares: Floats, seed: int) -> Floats:
    """Adjusted p of each comparison: that its log-ratios centre on zero, two-sided.

    `log_ratios` has a row for each block and a column for each comparison, NaN where a block has no
    ratio; `shares` are the `weights` of the columns.
    """
    patterns = _patterns(len(log_ratios), seed)
    # A pattern and its opposite tell the same of two sides.
    chances = _chances(log_ratios, patterns[patterns[:, 0] > 0], sides=2)
    return _step_down(chances / shares)


def equal(log_ratios: Floats, shares: Floats, margin: float, seed: int) -> Floats:
    """Adjusted p of each comparison: that its ratio lies beyond 1 / (1 + margin) or 1 + margin.

    Two one-sided tests (TOST), and both of all comparisons are one family.
    """
    bound = np.log1p(margin)
    patterns = _patterns(len(log_ratios), seed)
    both = np.hstack([log_ratios + bound, bound - log_ratios])
    adjusted = _step_down(_chances(both, patterns, sides=1) / np.tile(shares, 2))
    return np.asarray(adjusted.reshape(2, -1).max(axis=0), dtype=np.float64)


@lru_cache(maxsize=8)
def _patterns(blocks: int, seed: int) -> Floats:
    """Signs of the blocks, a row for each pattern, the first as the blocks were seen."""
    if blocks <= EXACT_BLOCKS:
        places = np.arange(1 << blocks)[:, None] >> np.arange(blocks)
        return np.where(places & 1, -1.0, 1.0)
    drawn = np.random.default_rng(seed).choice([-1.0, 1.0], size=(_PATTERNS, blocks))
    drawn[0] = 1.0
    return drawn


def _chances(log_ratios: Floats, patterns: Floats, sides: Literal[1, 2]) -> Floats:
    """p of Student's t of each column, a row for each pattern; of one side that it is above 0."""
    # As in the rank test, a block without a difference tells nothing.
    known = np.isfinite(log_ratios) & (log_ratios != 0)
    counts = known.sum(axis=0)
    chances = np.full((len(patterns), len(counts)), np.inf)
    usable = counts >= 2
    counts = counts[usable]
    values = np.where(known, log_ratios, np.nan)[:, usable]
    limits = _LIMIT * np.nanmedian(np.abs(values), axis=0)
    values = np.nan_to_num(np.clip(values, -limits, limits))
    sums = patterns @ values
    # Flips leave the squares as they are; 1 - r² of the t-test is what is noise of them.
    noise = np.maximum(1 - sums**2 / (counts * (values**2).sum(axis=0)), _LEAST_NOISE)
    tails = scipy.special.betainc((counts - 1) / 2, 0.5, noise)
    if sides == 1:
        tails = np.where(sums > 0, tails / 2, 1 - tails / 2)
    chances[:, usable] = tails
    return chances


def _step_down(strengths: Floats) -> Floats:
    """Adjusted p of each column; the first row is what was seen, low values are strong."""
    order = np.argsort(strengths[0], kind="stable")
    seen = strengths[0, order]
    # The strongest of the column and of those behind it, in each pattern.
    rest = np.minimum.accumulate(strengths[:, order[::-1]], axis=1)[:, ::-1]
    shares = (rest <= seen * (1 + _ROUNDING)).mean(axis=0)
    adjusted = np.empty(len(seen))
    adjusted[order] = np.maximum.accumulate(shares)
    return adjusted

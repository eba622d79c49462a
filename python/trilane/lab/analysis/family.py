"""Judging the comparisons of one table together: its family.

Every claim of a table, about whatever measure and pair of arms, comes from one family, so that few
whole tables hold a false claim, and what the headline says is a row of the table (METHOD §3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from msgspec import structs

from trilane.lab.analysis import familywise, stats
from trilane.lab.analysis.stats import ALPHA, Floats, Interval
from trilane.lab.model.comparison import Finding, Ratio

_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Case:
    """Two arms to be compared on one measure."""

    row: Ratio
    """Measure and arms, with nothing judged yet."""
    log_ratios: Floats
    """One per block of the family, NaN where the block has none."""
    repeated: Floats
    """Log-ratios of its own two arms to themselves, second run to first."""
    valid: bool
    """Whether all its runs are."""
    decides: bool
    """Whether it is one of the measure that decides."""


def judge(cases: Sequence[Case], *, margin: float, seed: int, alpha: float = ALPHA) -> list[Ratio]:
    """Judge a family: its rows, in its order.

    A difference is named only when the interval excludes 1, the adjusted p is at most 0.05 and the
    ratio lies beyond the centre of `repeated`; no difference only when the two tests say so and the
    interval lies within the margin. The row of a case with fewer than two blocks stays
    as it is.

    `alpha` is the chance of a false claim that the family may take, where this is one look of
    several: intervals have the level 1 - `alpha`, and an adjusted p is multiplied by 0.05 / `alpha`
    (at most 1), so that it is still compared with 0.05.
    """
    intervals = {
        index: interval
        for index, case in enumerate(cases)
        if (interval := _interval(case, seed, alpha)) is not None
    }
    found = [case.row for case in cases]
    if not intervals:
        return found
    judged = [cases[index] for index in intervals]
    ratios = np.column_stack([case.log_ratios for case in judged])
    shares = familywise.weights([case.decides for case in judged])
    different = familywise.different(ratios, shares, seed)
    equal = familywise.equal(ratios, shares, margin, seed)
    for place, (index, log_interval) in enumerate(intervals.items()):
        case = cases[index]
        samples = stats.known(case.log_ratios)
        p = stats.signed_rank(samples, "two-sided")
        # The rank test stands alone where the family is no harder than it: never below its p.
        adjusted = _of_look(max(p, float(different[place])), alpha)
        tost = _of_look(max(stats.equivalence(samples, margin), float(equal[place])), alpha)
        interval, aa = stats.exponential(log_interval), stats.centre(case.repeated)
        finding: Finding = "invalid"
        if case.valid:
            finding = stats.judge(interval, adjusted, tost, aa, margin)
        vetoed = finding == "undecided" and stats.side(interval, adjusted) is not None
        found[index] = structs.replace(
            case.row,
            ratio=interval.centre,
            low=interval.low,
            high=interval.high,
            p=p,
            p_holm=adjusted,
            p_tost=tost,
            finding=finding,
            blocks=len(samples),
            aa=aa,
            vetoed=vetoed,
            more_blocks=more_blocks(log_interval, len(samples), margin, float(shares[place]), alpha)
            if finding == "undecided" and not vetoed
            else None,
        )
    return found


def _interval(case: Case, seed: int, alpha: float) -> Interval | None:
    samples = stats.known(case.log_ratios)
    return stats.bootstrap(samples, stats.hodges_lehmann, seed, alpha=alpha)


def _of_look(p: float, alpha: float) -> float:
    """A p that may be at most `alpha`, as one that may be at most 0.05."""
    return min(1.0, p * (ALPHA / alpha))


def more_blocks(
    log_interval: Interval, blocks: int, margin: float, share: float, alpha: float = ALPHA
) -> int:
    """About how many more blocks would show a difference, or that there is none.

    Were they like the `blocks` behind this interval of the log-ratio, which has the level
    1 - `alpha`: as many as let a normal test with this `share` of `alpha` succeed in four of five
    times. An estimate to plan with: nobody may go on until a result pleases.
    """
    spread = math.sqrt(blocks) * (log_interval.high - log_interval.low) / 2
    spread /= -float(scipy.special.stdtrit(blocks - 1, alpha / 2))
    missing = abs(log_interval.centre)
    # Two sides for a difference, one for each of the two tests of no difference.
    targets = [(missing, alpha / 2), (math.log1p(margin) - missing, alpha)]
    needed = min(
        (
            (spread * _standard_errors(chance * share) / distance) ** 2
            for distance, chance in targets
            if distance > 0
        ),
        default=0.0,
    )
    return max(1, math.ceil(needed) - blocks, stats.LEAST_BLOCKS - blocks)


def _standard_errors(alpha: float) -> float:
    """How far a mean must lie from a limit for a test at `alpha` to succeed with `_POWER`."""
    return float(scipy.special.ndtri(1 - alpha) + scipy.special.ndtri(_POWER))

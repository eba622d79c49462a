"""The highest rates that hold, version by version, and what gave way above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.measures import CAPACITY
from trilane.report import formatting, view


@dataclass(frozen=True, slots=True)
class Row:
    """One arm."""

    title: str
    rate: str
    """The median over blocks, requests/s."""
    interval: str
    """Its interval over blocks."""
    searches: str
    """From the lowest lower end of a search to the highest upper one."""
    broke: str
    """What did not hold above it, and in how many of the searches."""
    verdict: str
    """Whether its runs may be believed."""


def goals(comparison: Comparison) -> list[str]:
    """What the searches of a comparison had to keep; empty where its runs are none."""
    found = [goal for arm in comparison.arms for one in view.searches(arm) for goal in one.goals]
    return list(dict.fromkeys(found))


def head(comparison: Comparison) -> Sequence[str]:
    """What the columns of `rows` are."""
    level = looks.percent(comparison.plan.level)
    return (
        "",
        "highest rate that holds (requests/s)",
        f"{level} interval over blocks",
        "ends of the searches",
        "what did not hold above it",
        "validity",
    )


def rows(comparison: Comparison) -> list[Row]:
    """A row for each arm; none where the runs are no searches."""
    return [_row(arm) for arm in comparison.arms] if goals(comparison) else []


def _row(arm: JudgedArm) -> Row:
    summary, searches = arm.summary.get(CAPACITY.name), view.searches(arm)
    lows = [one.low_per_s for one in searches if one.low_per_s is not None]
    highs = [one.high_per_s for one in searches if one.high_per_s is not None]
    broke = Counter(goal for one in searches for goal in one.broke[:1])
    return Row(
        title=arm.title,
        rate=formatting.number(None if summary is None else summary.median),
        interval=formatting.NONE
        if summary is None
        else formatting.interval(summary.low, summary.high),
        searches=formatting.interval(min(lows, default=None), max(highs, default=None)),
        broke=", ".join(f"{goal} ({n} of {len(searches)})" for goal, n in broke.most_common())
        or formatting.NONE,
        verdict=arm.validity.verdict,
    )

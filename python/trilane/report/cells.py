"""The numbers of a comparison as cells: value, interval, ratio, finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from trilane.lab.model.comparison import (
    Better,
    Comparison,
    Finding,
    JudgedArm,
    Ratio,
    Shown,
    Summary,
)
from trilane.report import formatting, view

FINDINGS = {finding: finding.replace("_", " ") for finding in get_args(Finding)}
MARKS = {
    "higher": "▲",
    "lower": "▼",
    "no_difference": "=",
    "undecided": "?",
    "not_ranked": "·",
    "invalid": "✗",
}
SHARED = "· not ranked: other programs on the interface count too"


@dataclass(frozen=True, slots=True)
class Cell:
    """A measure of an arm."""

    arm: str
    value: str
    interval: str | None
    ratio: str | None
    """To the baseline, with its interval; None for the baseline itself."""
    finding: Finding | None
    """A key of `FINDINGS`."""
    tone: str
    """good, bad or plain."""
    p: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A measure over all arms."""

    measure: Shown
    unit: str
    """In which the values are; empty where the label says it."""
    floor: str
    cells: list[Cell]


def rows(comparison: Comparison, arms: Sequence[JudgedArm] | None = None) -> list[Row]:
    """One row per measure that has values, one cell per arm in the order of `arms`."""
    arms = comparison.arms if arms is None else arms
    ratios = view.ratios(comparison)
    made = []
    for measure in view.measures(comparison):
        summaries = [view.summary(arm, measure) for arm in arms]
        factor, unit = formatting.scale((summary.median for summary in summaries), measure.unit)
        floor = comparison.noise_floor.get(measure.name)
        made.append(
            Row(
                measure,
                "" if measure.unit == "1/s" else unit,
                f"{formatting.times(floor.low)}–{formatting.times(floor.high)}"
                if floor
                else formatting.NONE,
                [
                    _cell(
                        arm.title,
                        summary,
                        factor,
                        ratios.get((measure.name, arm.name)),
                        measure.better,
                    )
                    for arm, summary in zip(arms, summaries, strict=True)
                ],
            )
        )
    return made


def _cell(arm: str, summary: Summary, factor: float, ratio: Ratio | None, better: Better) -> Cell:
    median, low, high = (
        None if value is None else value / factor
        for value in (summary.median, summary.low, summary.high)
    )
    value = formatting.number(median)
    interval = None if low is None else formatting.interval(low, high)
    if ratio is None or median is None:
        return Cell(arm, value, interval, None, None, "plain", None)
    return Cell(
        arm,
        value,
        interval,
        formatting.ratio(ratio.ratio, ratio.low, ratio.high),
        ratio.finding,
        tone(ratio.finding, better),
        None if ratio.p_holm is None else f"p {formatting.p_value(ratio.p_holm)}",
    )


def said(row: Ratio | None) -> str:
    """A ratio with its interval, and before it the sign of what was found."""
    if row is None or row.ratio is None:
        return formatting.NONE
    return f"{MARKS[row.finding]} {formatting.ratio(row.ratio, row.low, row.high)}"


def tone(finding: Finding, better: Better) -> str:
    """Whether a finding is good news."""
    if finding in ("higher", "lower"):
        return "good" if finding == better else "bad"
    return "bad" if finding == "invalid" else "plain"

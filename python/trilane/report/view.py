"""What reports look at: the look-ups that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.analysis import looks
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.capacity import Capacity
from trilane.lab.model.comparison import Comparison, JudgedArm, Ratio, Shown, Summary
from trilane.lab.model.lab import LabResult
from trilane.lab.model.record import SweepValue
from trilane.lab.model.run import Run
from trilane.report import formatting

FEW = 4
"""Up to so many arms stand side by side; more stand below each other."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep, or the only one of a result without a sweep."""

    value: SweepValue | None
    label: str
    """Such as `1,000 requests`; empty without a sweep."""
    key: str
    """Prefix of the names of its charts; empty without a sweep."""
    comparison: Comparison
    everyone: list[JudgedArm]
    """The arms of all points, so that an arm has one colour in the whole report."""


def document(result: LabResult) -> LabResult | Comparison:
    """What commands print as JSON: of a race its comparison, else the whole result."""
    return result if result.race is None else result.race


def points(lab: LabResult) -> list[Point]:
    """The points of a lab result in the order of the sweep."""
    sweep = lab.sweep
    arms = everyone(lab)
    return [
        Point(None, "", "", point.comparison, arms)
        if sweep is None or point.value is None
        else Point(
            point.value,
            formatting.swept(point.value, sweep.key, sweep.unit),
            f"at{number}-",
            point.comparison,
            arms,
        )
        for number, point in enumerate(lab.points, start=1)
    ]


def software(comparison: Comparison, arm: JudgedArm) -> str:
    """Version of the arm's client, to stand beside its name; empty where there is nothing to tell.

    Where our engine makes the load of all arms, its version says nothing about any of them, least
    of all where they are revisions of something else: the ledger has it.
    """
    if all(each.client == ENGINE for each in comparison.arms):
        return ""
    return arm.library_version or ""


def level(lab: LabResult) -> str:
    """The level of its intervals: `95 %`, or the lowest and the highest where points differ."""
    levels = sorted({point.comparison.plan.level for point in lab.points})
    return " to ".join(looks.percent(each) for each in dict.fromkeys([levels[0], levels[-1]]))


def blocks(lab: LabResult) -> str:
    """How many blocks there are at its points: `10 blocks`, `6 blocks or 10 blocks`."""
    counts = {point.comparison.plan.blocks_done for point in lab.points}
    return " or ".join(formatting.counted(count, "block") for count in sorted(counts))


def everyone(lab: LabResult) -> list[JudgedArm]:
    """The arms of all points, each once."""
    arms: dict[str, JudgedArm] = {}
    for point in lab.points:
        for arm in point.comparison.arms:
            arms.setdefault(arm.name, arm)
    return list(arms.values())


def titles(comparison: Comparison) -> dict[str, str]:
    """Title of every arm by its name."""
    return {arm.name: arm.title for arm in comparison.arms}


def lab_titles(lab: LabResult) -> dict[str, str]:
    """Title of every arm of every point by its name."""
    return {arm.name: arm.title for arm in everyone(lab)}


def measures(comparison: Comparison) -> list[Shown]:
    """The measures that have a value in some arm: the one that decides first."""
    first = comparison.ranking.measure
    shown = [
        measure
        for measure in comparison.measures
        if any(summary(arm, measure).median is not None for arm in comparison.arms)
    ]
    return sorted(shown, key=lambda measure: measure.name != first)


def deciding(comparison: Comparison) -> Shown | None:
    """The measure that decides; None where no arm has a value of it."""
    first = comparison.ranking.measure
    return next((measure for measure in measures(comparison) if measure.name == first), None)


def summary(arm: JudgedArm, measure: Shown) -> Summary:
    """Median and interval of a measure in an arm; None where it has none."""
    known = arm.summary.get(measure.name)
    return known or Summary(median=None, low=None, high=None, unit=measure.unit)


def ranked(comparison: Comparison) -> list[JudgedArm]:
    """The arms, best first by the measure that decides; invalid and unknown ones last."""
    measure = deciding(comparison)
    sign = -1 if measure is not None and measure.better == "higher" else 1

    def place(arm: JudgedArm) -> tuple[bool, bool, float]:
        median = None if measure is None else summary(arm, measure).median
        invalid = arm.validity.verdict == "invalid"
        return invalid, median is None, 0.0 if median is None else sign * median

    return sorted(comparison.arms, key=place)


def listed(comparison: Comparison) -> list[JudgedArm]:
    """The arms as lists show them: few in their own order, many best first."""
    return comparison.arms if len(comparison.arms) <= FEW else ranked(comparison)


def ratios(comparison: Comparison) -> dict[tuple[str, str], Ratio]:
    """Rows of `ratios` by measure and arm."""
    return {(row.measure, row.arm): row for row in comparison.ratios}


def runs(arm: JudgedArm) -> list[Run]:
    """The runs of an arm, without those that left no result."""
    return [sample.run for sample in arm.samples if sample.run is not None]


def searches(arm: JudgedArm) -> list[Capacity]:
    """What the runs of an arm found that are searches for the highest rate that holds."""
    return [run.capacity for run in runs(arm) if run.capacity is not None]


def clients(arms: Sequence[JudgedArm]) -> dict[str, list[JudgedArm]]:
    """Arms by the name of their client, in the order of their first arm."""
    groups: dict[str, list[JudgedArm]] = {}
    for arm in arms:
        groups.setdefault(arm.client, []).append(arm)
    return groups

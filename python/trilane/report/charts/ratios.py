"""Ratios to the baseline with their intervals: the forest plots."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Comparison, Shown
from trilane.lab.model.documents import Json
from trilane.report import formatting, view
from trilane.report.cells import FINDINGS
from trilane.report.charts.bars import matter
from trilane.report.charts.base import (
    GREY,
    ROW_NAMES,
    Chart,
    Look,
    data,
    one,
    ratio_axis,
    row_axis,
    row_height,
    spec,
    wrapped,
)
from trilane.report.view import Point


def forests(point: Point) -> list[Chart]:
    """Few arms: one chart of all measures. Many: one for each that matters, the deciding one first.

    The ratios of many arms in other measures are in the table of numbers.
    """
    few = len(point.comparison.arms) <= view.FEW
    parts = [view.measures(point.comparison)] if few else [[each] for each in matter(point)]
    made = [_forest(point, part, few) for part in parts]
    return [chart for chart in made if chart is not None]


def _rows(comparison: Comparison, measures: Sequence[Shown], look: Look) -> list[Json]:
    labels = {measure.name: measure.label for measure in measures}
    several = len(measures) > 1
    return [
        {
            "measure": wrapped(labels[row.measure]),
            **look.fields(row.arm),
            "ratio": row.ratio,
            "low": row.low,
            "high": row.high,
            "said": ", ".join([look.titles[row.arm], *([labels[row.measure]] if several else [])])
            + f": {formatting.ratio(row.ratio, row.low, row.high)}, {FINDINGS[row.finding]}",
        }
        for row in comparison.ratios
        if row.measure in labels and row.ratio is not None and row.low is not None
    ]


def _floors(comparison: Comparison, measures: Sequence[Shown]) -> list[Json]:
    floors = comparison.noise_floor
    return [
        {"measure": wrapped(measure.label), "low": floor.low, "high": floor.high}
        for measure in measures
        if (floor := floors.get(measure.name))
    ]


def _forest(point: Point, measures: Sequence[Shown], few: bool) -> Chart | None:
    """Rows of measures with few arms in each, or rows of arms for one measure."""
    comparison, key = point.comparison, point.key
    arms = [arm for arm in view.listed(comparison) if arm.name != comparison.baseline]
    look = Look(arms, among=point.everyone, margin=ROW_NAMES)
    rows = _rows(comparison, measures, look)
    if not rows:
        return None
    seen = {row["measure"] for row in rows}
    floors = [floor for floor in _floors(comparison, measures) if floor["measure"] in seen]
    baseline = view.titles(comparison)[comparison.baseline]
    note = (
        f"Point: centre over blocks; line: {looks.percent(comparison.plan.level)} interval; grey: "
        "noise floor, a second run of an arm against its first in the same block. Log scale."
    )
    base, floor = data(rows), data(floors)
    if few:
        name, title = f"{key}ratios", f"Ratio to {baseline}"
        labels = [label for label in (wrapped(m.label) for m in measures) if label in seen]
        measure = alt.Y("measure:N", title=None, sort=labels, axis=row_axis())
        within = alt.YOffset("arm:N", sort=[look.labels[arm.name] for arm in arms])
        base = base.encode(y=measure, yOffset=within)
        band = alt.RelativeBandSize(0.9)
        floor = floor.mark_bar(color=GREY, opacity=0.3, height=band).encode(y=measure)
        height = max(44, 18 * len(arms) + 8) * len(seen)
    else:
        (only,) = measures
        name = f"{key}ratios"
        if only.name != comparison.ranking.measure:
            name += f"-{only.name}"
        title = formatting.capital(f"{only.label}, ratio to {baseline}")
        note += f" {only.better.capitalize()} is better."
        base = base.encode(y=look.rows())
        floor = floor.mark_rect(color=GREY, opacity=0.3)
        height = row_height(look.lines) * len(arms)
    ends = (row[end] for row in [*rows, *floors] for end in ("low", "high"))
    interval = (
        ratio_axis("low:Q", ends),
        alt.X2("high:Q"),
    )
    legend = few or look.legend_of_versions()
    base = base.encode(color=look.colour(legend=legend))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        alt.X("ratio:Q"),
        shape=look.shape(legend=legend),
        description=alt.Description("said:N"),
    )
    whisker = base.mark_rule(strokeWidth=3).encode(*interval)
    layers = [floor.encode(*interval), one(), whisker, points]
    return Chart(name, title, note, spec(layers, height))

"""Ratios to the baseline with their intervals: the forest plots."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Comparison, Shown
from trilane.lab.model.documents import Json
from trilane.report import formatting, view
from trilane.report.charts.base import (
    GREY,
    Chart,
    Look,
    data,
    one,
    ratio_axis,
    ratio_tips,
    row_axis,
    row_height,
    spec,
    titled,
    wrapped,
)
from trilane.report.view import Point

_TOOLTIP = (("title:N", "arm"), ("measure:N", "measure"), ("finding:N", "finding"))


def forests(point: Point) -> list[Chart]:
    """Few arms: one chart of all measures. Many: one chart per measure, the deciding one first."""
    comparison = point.comparison
    measures = view.measures(comparison)
    if len(comparison.arms) <= view.FEW:
        made = [_by_measure(point, measures)]
    else:
        made = [_by_arm(point, measure) for measure in measures]
    return [chart for chart in made if chart is not None]


def _rows(comparison: Comparison, measures: Sequence[Shown], look: Look) -> list[Json]:
    labels = {measure.name: measure.label for measure in measures}
    return [
        {
            "measure": wrapped(labels[row.measure]),
            **look.fields(row.arm),
            "ratio": row.ratio,
            "low": row.low,
            "high": row.high,
            "finding": row.finding,
        }
        for row in comparison.ratios
        if row.measure in labels and row.ratio is not None and row.low is not None
    ]


def _floors(comparison: Comparison, measures: Sequence[Shown]) -> list[Json]:
    floors = comparison.noise_floor
    return [
        {
            "measure": wrapped(measure.label),
            "low": floor.low,
            "high": floor.high,
        }
        for measure in measures
        if (floor := floors.get(measure.name))
    ]


def _axis(rows: Sequence[Json], baseline: str) -> alt.X:
    ends = (row[end] for row in rows for end in ("low", "high"))
    return ratio_axis("low:Q", titled(f"ratio to {baseline} (×)"), ends)


def _note(comparison: Comparison) -> str:
    return (
        f"Point: centre over blocks; line: {looks.percent(comparison.plan.level)} interval; grey: "
        "noise floor, a second run of an arm against its first in the same block. Log scale."
    )


def _points(base: alt.Chart, look: Look, *, legend: bool) -> alt.Chart:
    points: alt.Chart = base.mark_point(filled=True, size=70, opacity=1).encode(
        alt.X("ratio:Q"),
        shape=look.shape(legend=legend),
        tooltip=[
            *(alt.Tooltip(field, title=title) for field, title in _TOOLTIP),
            *ratio_tips(),
        ],
    )
    return points


def _by_measure(point: Point, measures: Sequence[Shown]) -> Chart | None:
    comparison = point.comparison
    arms = [arm for arm in comparison.arms if arm.name != comparison.baseline]
    look = Look(arms, among=point.everyone)
    rows = _rows(comparison, measures, look)
    if not rows:
        return None
    seen = {row["measure"] for row in rows}
    labels = [label for label in (wrapped(m.label) for m in measures) if label in seen]
    floors = [floor for floor in _floors(comparison, measures) if floor["measure"] in seen]
    baseline = view.titles(comparison)[comparison.baseline]
    axis = _axis([*rows, *floors], baseline)
    measure = alt.Y("measure:N", title="measure", sort=labels, axis=row_axis())
    band = alt.RelativeBandSize(0.9)
    floor = data(floors).mark_bar(color=GREY, opacity=0.3, height=band)
    floor = floor.encode(axis, alt.X2("high:Q"), measure)
    base = data(rows).encode(
        y=measure,
        yOffset=alt.YOffset("arm:N", sort=[look.labels[arm.name] for arm in arms]),
        color=look.colour(),
    )
    whisker = base.mark_rule(strokeWidth=3).encode(axis, alt.X2("high:Q"))
    step = max(44, 18 * len(arms) + 8)
    return Chart(
        f"{point.key}ratios",
        f"Ratio to {baseline}",
        _note(comparison),
        spec(alt.layer(floor, one(), whisker, _points(base, look, legend=True)), step * len(seen)),
    )


def _by_arm(point: Point, measure: Shown) -> Chart | None:
    comparison, key = point.comparison, point.key
    arms = [arm for arm in view.listed(comparison) if arm.name != comparison.baseline]
    look = Look(arms, among=point.everyone)
    rows = _rows(comparison, [measure], look)
    if not rows:
        return None
    floors = _floors(comparison, [measure])
    baseline = view.titles(comparison)[comparison.baseline]
    axis = _axis([*rows, *floors], baseline)
    floor = data(floors).mark_rect(color=GREY, opacity=0.3).encode(axis, alt.X2("high:Q"))
    legend = look.legend_of_versions()
    base = data(rows).encode(y=look.rows(), color=look.colour(legend=legend))
    whisker = base.mark_rule(strokeWidth=3).encode(axis, alt.X2("high:Q"))
    first = measure.name == comparison.ranking.measure
    return Chart(
        f"{key}ratios" if first else f"{key}ratios-{measure.name}",
        formatting.capital(f"{measure.label}, ratio to {baseline}"),
        f"{_note(comparison)} {measure.better.capitalize()} is better.",
        spec(
            alt.layer(floor, one(), whisker, _points(base, look, legend=legend)),
            row_height(look.lines) * len(arms),
        ),
    )

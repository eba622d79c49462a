"""Measures against the value of a sweep, and where two arms cross."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from trilane.lab.model.comparison import JudgedArm, Shown
from trilane.lab.model.lab import LabResult, Swept
from trilane.report import formatting, palette, view
from trilane.report.charts.base import (
    GREY,
    PLAIN,
    Chart,
    Look,
    data,
    height_scale,
    interval,
    log_ticks,
    parts,
    plain,
    said,
    scaled,
    spec,
)

_WIDE = 8
_KEYS = {
    "count": "requests",
    "in_flight": "requests in flight",
    "body_bytes": "body",
    "rtt": "round-trip time",
}


def sweeps(lab: LabResult) -> list[Chart]:
    """One chart per measure, the deciding one first.

    With many arms it takes one chart per client, and only the deciding measure gets them.
    """
    if lab.sweep is None or len(lab.points) < 2:
        return []
    measures: dict[str, Shown] = {}
    for point in lab.points:
        measures.update({m.name: m for m in view.measures(point.comparison)})
    arms = view.everyone(lab)
    if len(arms) > palette.MANY:
        first = lab.points[0].comparison.ranking.measure
        measures = {name: measure for name, measure in measures.items() if name == first}
    groups: dict[str, list[JudgedArm]] = (
        {"": arms}
        if len(arms) <= palette.MANY
        else {
            f"{client}, {number}" if number > 1 else client: part
            for client, group in view.clients(arms).items()
            for number, part in enumerate(parts(group), start=1)
        }
    )
    made = [
        _sweep(lab, lab.sweep, measure, group, title)
        for measure in measures.values()
        for title, group in groups.items()
    ]
    return [chart for chart in made if chart is not None]


def _sweep(
    lab: LabResult, sweep: Swept, measure: Shown, arms: Sequence[JudgedArm], title: str
) -> Chart | None:
    look = Look(arms)
    names = set(look.titles)
    raw = [
        {**look.fields(arm.name), "value": point.value, **interval(found)}
        for point in lab.points
        for arm in point.comparison.arms
        if arm.name in names and (found := view.summary(arm, measure)).median is not None
    ]
    if not raw:
        return None
    rows, unit = scaled(raw, measure.unit, ("median", "low", "high"))
    factor, of = (1e-3, "ms") if sweep.key == "rtt" else (1.0, sweep.unit)
    rows = [{**row, "value": row["value"] / factor, "said": said(row, unit)} for row in rows]
    values = sorted({row["value"] for row in rows})
    wide = values[0] > 0 and values[-1] / values[0] >= _WIDE
    along = _KEYS.get(sweep.key, sweep.key)
    axis = alt.X(
        "value:Q",
        title=along if along == of else formatting.headed(along, of or ""),
        scale=alt.Scale(type="log", nice=False, padding=16)
        if wide
        else alt.Scale(zero=False, nice=False, padding=16),
        axis=alt.Axis(values=values, format=PLAIN, labelOverlap=True, grid=False),
    )
    ends = [row[end] for row in rows for end in ("median", "low", "high") if row[end] is not None]
    tall = min(ends) > 0 and max(ends) / min(ends) >= _WIDE
    height = alt.Y(
        "median:Q",
        title=None,
        scale=height_scale(ends, log=tall),
        axis=alt.Axis(format=",~g", values=log_ticks(min(ends), max(ends)))
        if tall
        else alt.Axis(format="~s"),
    )
    base = data(rows).encode(axis, color=look.colour())
    layers: list[alt.Chart] = _crossings(lab, measure, names, axis, factor)
    layers += [
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(
            alt.Y("low:Q", title=None), alt.Y2("high:Q")
        ),
        base.mark_line(strokeWidth=2).encode(height, description=alt.Description("title:N")),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            height,
            shape=look.shape(),
            description=alt.Description("said:N"),
        ),
    ]
    note = f"Point: median of the runs; upright line: {view.level(lab)} interval."
    if len(layers) > 3:
        note += " Grey: where two arms cross, with its interval."
    kind = " Log scales." if wide and tall else " Log scale." if wide or tall else ""
    return Chart(
        f"sweep-{measure.name}" + (f"-{plain(title)}" if title else ""),
        formatting.capital(
            f"{formatting.headed(measure.label, unit)}{f', {title}' if title else ''} "
            f"against {along}"
        ),
        note + kind,
        spec(layers, 320),
    )


def _crossings(
    lab: LabResult, measure: Shown, arms: set[str], axis: alt.X, factor: float
) -> list[alt.Chart]:
    found = [
        {
            "value": row.at / factor,
            "from": (row.at if row.low is None else row.low) / factor,
            "to": (row.at if row.high is None else row.high) / factor,
            "text": row.text,
        }
        for row in lab.crossings
        if row.measure == measure.name and row.at is not None and {row.arm, row.to} <= arms
    ]
    if not found:
        return []
    base = data(found)
    return [
        base.mark_rect(color=GREY, opacity=0.2).encode(
            alt.X("from:Q"), alt.X2("to:Q"), description=alt.Description("text:N")
        ),
        base.mark_rule(color=GREY, strokeDash=[5, 4], strokeWidth=2).encode(
            axis, description=alt.Description("text:N")
        ),
    ]

"""Published numbers beside ours, as ratios between the same two arms."""

from __future__ import annotations

import altair as alt

from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.report import view
from trilane.report.charts.base import GREY, Chart, ratio_ticks, row_axis, row_height, spec, wrapped
from trilane.report.labels import published_labels

_THEIRS, _OURS = "published", "here"


def published(lab: LabResult) -> Chart | None:
    """A dumbbell per published ratio: a diamond for theirs, a circle with an interval for ours."""
    rows: list[Json] = []
    labels = []
    for row, said in zip(lab.published, published_labels(lab), strict=True):
        label = wrapped(said)
        labels.append(label)
        named = {"what": label, "who": _THEIRS}
        rows.append({**named, "ratio": row.published.ratio, "low": None, "high": None})
        if (ours := row.ours) is not None:
            named = {"what": label, "who": _OURS}
            rows.append({**named, "ratio": ours.ratio, "low": ours.low, "high": ours.high})
    if not rows:
        return None
    ends = [row[key] for row in rows for key in ("ratio", "low", "high") if row[key]]
    low, high = min([*ends, 0.95]) / 1.05, max([*ends, 1.05]) * 1.05
    what = alt.Y("what:N", title=None, sort=labels, axis=row_axis())
    axis = alt.X(
        "ratio:Q",
        title="ratio (×)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format="~g", values=ratio_ticks(low, high)),
    )
    base = alt.Chart(alt.Data(values=rows)).encode(y=what)
    join = base.mark_line(color=GREY, strokeWidth=1.5, strokeDash=[3, 3]).encode(
        axis, detail=alt.Detail("what:N")
    )
    whisker = (
        base.transform_filter("datum.low != null")
        .mark_rule(strokeWidth=3, color="#3f87c8")
        .encode(alt.X("low:Q"), alt.X2("high:Q"))
    )
    point = base.mark_point(size=90, opacity=1, filled=True).encode(
        axis,
        color=alt.Color(
            "who:N",
            scale=alt.Scale(domain=[_THEIRS, _OURS], range=["#d97f14", "#3f87c8"]),
            legend=alt.Legend(orient="top", title=None),
        ),
        shape=alt.Shape(
            "who:N",
            scale=alt.Scale(domain=[_THEIRS, _OURS], range=["diamond", "circle"]),
            legend=alt.Legend(orient="top", title=None),
        ),
        tooltip=[
            alt.Tooltip("what:N", title="ratio"),
            alt.Tooltip("who:N"),
            alt.Tooltip("ratio:Q", format=".3~g"),
            alt.Tooltip("low:Q", format=".3~g"),
            alt.Tooltip("high:Q", format=".3~g"),
        ],
    )
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(color=GREY).encode(alt.X("one:Q"))
    lines = max(label.count("\n") + 1 for label in labels)
    return Chart(
        "published",
        "Published ratios beside ours",
        "Diamond: from the published numbers; circle: here, with its "
        f"{view.level(lab)} interval. Log scale.",
        spec(alt.layer(one, join, whisker, point), row_height(lines) * len(labels)),
    )

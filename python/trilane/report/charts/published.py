"""Published numbers beside ours, as ratios between the same two arms."""

from __future__ import annotations

import altair as alt

from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.report import labels, view
from trilane.report.charts.base import (
    GREY,
    ROW_NAMES,
    Chart,
    data,
    legend,
    one,
    ratio_axis,
    ratio_tips,
    row_axis,
    row_height,
    spec,
    wrapped,
)

_THEIRS, _OURS = "published", "here"


def published(lab: LabResult) -> Chart | None:
    """A dumbbell per published ratio: a diamond for theirs, a circle with an interval for ours."""
    rows: list[Json] = []
    named_rows = [wrapped(row.label) for row in labels.published(lab)]
    for row, label in zip(lab.published, named_rows, strict=True):
        named = {"what": label, "who": _THEIRS}
        rows.append({**named, "ratio": row.published.ratio, "low": None, "high": None})
        if (ours := row.ours) is not None:
            named = {"what": label, "who": _OURS}
            rows.append({**named, "ratio": ours.ratio, "low": ours.low, "high": ours.high})
    if not rows:
        return None
    ends = [row[key] for row in rows for key in ("ratio", "low", "high") if row[key]]
    axis = ratio_axis("ratio:Q", ends)
    what = alt.Y("what:N", title=None, sort=named_rows, axis=row_axis())
    base = data(rows).encode(y=what)
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
            legend=legend([_THEIRS, _OURS], ROW_NAMES),
        ),
        shape=alt.Shape(
            "who:N",
            scale=alt.Scale(domain=[_THEIRS, _OURS], range=["diamond", "circle"]),
            legend=legend([_THEIRS, _OURS], ROW_NAMES),
        ),
        tooltip=[alt.Tooltip("what:N", title="ratio"), alt.Tooltip("who:N"), *ratio_tips()],
    )
    lines = max(label.count("\n") + 1 for label in named_rows)
    return Chart(
        "published",
        "Published ratios beside ours",
        "Diamond: from the published numbers; circle: here, with its "
        f"{view.level(lab)} interval. Log scale.",
        spec(alt.layer(one(), join, whisker, point), row_height(lines) * len(named_rows)),
    )

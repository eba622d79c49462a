"""Published numbers beside ours, as ratios between the same two arms."""

from __future__ import annotations

import altair as alt

from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.report import formatting, labels, view
from trilane.report.charts.base import (
    GREY,
    ROW_NAMES,
    Chart,
    data,
    legend,
    one,
    ratio_axis,
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
        theirs = row.published.ratio
        rows.append({**named, "ratio": theirs, "low": None, "high": None, "said": _said(theirs)})
        if (ours := row.ours) is not None:
            named = {"what": label, "who": _OURS}
            told = _said(ours.ratio, ours.low, ours.high)
            here = {"ratio": ours.ratio, "low": ours.low, "high": ours.high, "said": told}
            rows.append({**named, **here})
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
        description=alt.Description("said:N"),
    )
    lines = max(label.count("\n") + 1 for label in named_rows)
    return Chart(
        "published",
        "Published ratios beside ours",
        "Diamond: from the published numbers; circle: here, with its "
        f"{view.level(lab)} interval. Log scale.",
        spec([one(), join, whisker, point], row_height(lines) * len(named_rows)),
    )


def _said(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    return f"{_THEIRS if low is None else _OURS}: {formatting.ratio(ratio, low, high)}"

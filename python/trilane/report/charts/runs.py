"""Single runs: paired within their blocks, and second by second."""

from __future__ import annotations

import statistics

import altair as alt

from trilane.lab.analysis.measures import Json
from trilane.report import palette, text, view
from trilane.report.charts.base import GREY, Chart, Look, log_axis, row_height, scaled, spec
from trilane.report.view import Point

_FULL_WINDOW_S = 0.99
_WIDE = 20


def paired(point: Point) -> Chart | None:
    """The deciding measure of every run, a line per block from arm to arm."""
    comparison = point.comparison
    if len(comparison["arms"]) < 2:
        return None
    first = comparison["ranking"]["measure"]
    measure = next((m for m in view.measures(comparison) if m.name == first), None)
    if measure is None:
        return None
    arms = view.listed(comparison)
    look = Look(arms, among=point.everyone)
    raw = []
    for place, arm in enumerate(arms):
        blocks: dict[int, list[float]] = {}
        for sample, run in view.runs(arm):
            value = view.value(first, sample, run)
            if value is not None and value > 0:
                blocks.setdefault(sample["block"], []).append(value)
        raw += [
            {
                **look.fields(arm["name"]),
                "place": place,
                "block": block + 1,
                # The baseline's two runs of a block stand for one, as in the statistics.
                "value": statistics.geometric_mean(values),
            }
            for block, values in blocks.items()
        ]
    if not raw:
        return None
    rows, unit = scaled(raw, measure.unit, ("value",))
    low, high = min(row["value"] for row in rows), max(row["value"] for row in rows)
    scale, axis = alt.Scale(zero=False), alt.Axis(format="~s", labelOverlap=True)
    if high / low > _WIDE:
        scale, axis = log_axis(low / 1.1, high * 1.1)
    elif unit != "/s":
        axis = alt.Axis(labelOverlap=True)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=look.rows(),
        x=alt.X(
            "value:Q",
            title=text.headed(measure.label, unit),
            scale=scale,
            axis=axis,
        ),
    )
    lines = base.mark_line(strokeWidth=1.2, opacity=0.6, color=GREY).encode(
        detail=alt.Detail("block:N"), order=alt.Order("place:Q")
    )
    points = base.mark_point(filled=True, size=45, opacity=0.9).encode(
        color=look.colour(legend=look.legend_of_versions()),
        tooltip=[
            alt.Tooltip("title:N", title="arm"),
            alt.Tooltip("block:Q"),
            alt.Tooltip("value:Q", format=",.4~g", title=text.headed(measure.label, unit)),
        ],
    )
    return Chart(
        f"{point.key}paired",
        "Blocks",
        "One point per arm and block; a line joins the runs of one block. Lines that run alike "
        "mean that the difference does not depend on when it was measured.",
        spec(
            alt.layer(lines, points),
            max(row_height(look.lines), 40 if len(arms) <= palette.MANY else 0) * len(arms),
        ),
    )


def windows(point: Point) -> Chart | None:
    """Requests per second within the runs, for arms that record them."""
    arms = [arm for arm in point.comparison["arms"] if any(_whole(run) for run in arm["runs"])]
    if not arms or len(arms) > palette.MANY:
        return None
    look = Look(arms, among=point.everyone)
    rows = [
        {
            **look.fields(arm["name"]),
            "run": f"{arm['title']} {number + 1}",
            "second": window["start_s"] + 1,
            "rate": window["ok"],
        }
        for arm in arms
        for number, run in enumerate(arm["runs"])
        for window in _whole(run)
    ]
    last = int(max(row["second"] for row in rows))
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=24), opacity=0.55, strokeWidth=1.5)
        .encode(
            alt.X(
                "second:Q",
                title="second of the run (s)",
                scale=alt.Scale(domain=[0.75, last + 0.25], nice=False),
                axis=alt.Axis(format="d", values=_ticks(last)),
            ),
            alt.Y("rate:Q", title="requests/s", axis=alt.Axis(format="~s")),
            color=look.colour(),
            detail=alt.Detail("run:N"),
            tooltip=[
                alt.Tooltip("run:N"),
                alt.Tooltip("second:Q"),
                alt.Tooltip("rate:Q", format=",", title="requests/s"),
            ],
        )
    )
    return Chart(
        f"{point.key}windows",
        "Requests per second, second by second",
        "One line per run. A slope means that the run had not settled.",
        spec(lines, 240),
    )


def _whole(run: Json) -> list[Json]:
    """Windows of a full second: the rest of a run would look like a slump."""
    return [window for window in run["windows"] if window["length_s"] > _FULL_WINDOW_S]


def _ticks(last: int) -> list[int]:
    step = max(1, round(last / 8))
    return list(range(1, last + 1, step))

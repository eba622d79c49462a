"""Single runs: paired within their blocks, and from their beginning to their end."""

from __future__ import annotations

import statistics

import altair as alt

from trilane.lab.analysis.paired import value as value_in
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.run import Run
from trilane.report import formatting, palette, view
from trilane.report.charts.base import (
    GREY,
    PLAIN,
    Chart,
    Look,
    data,
    log_axis,
    row_height,
    scaled,
    spec,
)
from trilane.report.view import Point

_POINTS = 40
"""Of a run's line at most."""
_WIDE = 20


def paired(point: Point) -> Chart | None:
    """The deciding measure of every run, a line per block from arm to arm."""
    comparison = point.comparison
    if len(comparison.arms) < 2:
        return None
    measure = view.deciding(comparison)
    known = BY_NAME.get(comparison.ranking.measure)
    if measure is None or known is None:
        return None
    arms = view.listed(comparison)
    look = Look(arms, among=point.everyone)
    raw = []
    for place, arm in enumerate(arms):
        blocks: dict[int, list[float]] = {}
        for sample in arm.samples:
            value = value_in(sample, known)
            if value > 0:
                blocks.setdefault(sample.block, []).append(value)
        raw += [
            {
                **look.fields(arm.name),
                "place": place,
                "block": block + 1,
                # Two runs of one block stand for one, as in the statistics.
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
    base = data(rows).encode(
        y=look.rows(),
        x=alt.X(
            "value:Q",
            title=formatting.headed(measure.label, unit),
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
            alt.Tooltip("value:Q", format=",.4~g", title=formatting.headed(measure.label, unit)),
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
    arms = [arm for arm in point.comparison.arms if any(_parts(run) for run in view.runs(arm))]
    if not arms or len(arms) > palette.MANY:
        return None
    look = Look(arms, among=point.everyone)
    rows = [
        {**look.fields(arm.name), "run": f"{arm.title} {number + 1}", **part}
        for arm in arms
        for number, run in enumerate(view.runs(arm))
        for part in _parts(run)
    ]
    last = max(row["end"] for row in rows)
    lines = (
        data(rows)
        .mark_line(opacity=0.55, strokeWidth=1.5)
        .encode(
            alt.X(
                "middle:Q",
                title="time within the run (s)",
                scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(format=PLAIN),
            ),
            alt.Y("rate:Q", title="requests/s", axis=alt.Axis(format="~s")),
            color=look.colour(),
            detail=alt.Detail("run:N"),
            tooltip=[
                alt.Tooltip("run:N"),
                alt.Tooltip("begin:Q", format=".3~g", title="from (s)"),
                alt.Tooltip("end:Q", format=".3~g", title="to (s)"),
                alt.Tooltip("rate:Q", format=",.4~g", title="requests/s"),
            ],
        )
    )
    return Chart(
        f"{point.key}windows",
        "Requests per second within the runs",
        "One line per run. A slope means that the run had not settled.",
        spec(lines, 240),
    )


def _parts(run: Run) -> list[dict[str, float]]:
    """The rate in parts of a run, each of as many windows; what is left over is not drawn."""
    rows = run.windows
    longest = max((row.length_s for row in rows), default=0.0)
    # The rest of a run would look like a slump.
    whole = [row for row in rows if row.length_s > 0.99 * longest]
    size = max(1, -(-len(whole) // _POINTS))
    parts = []
    for at in range(0, len(whole) - size + 1, size):
        part = whole[at : at + size]
        begin, end = part[0].start_s, part[-1].start_s + part[-1].length_s
        rate = sum(row.ok for row in part) / sum(row.length_s for row in part)
        parts.append({"begin": begin, "middle": (begin + end) / 2, "end": end, "rate": rate})
    return parts

"""Single runs: paired within their blocks, and from their beginning to their end."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import altair as alt

from trilane.lab.analysis.paired import value as value_in
from trilane.lab.model.comparison import JudgedArm
from trilane.lab.model.documents import Json
from trilane.lab.model.measures import BY_NAME, Measure
from trilane.lab.model.run import Run
from trilane.report import formatting, palette, view
from trilane.report.charts.base import (
    AXIS,
    GREY,
    PLAIN,
    ROW_NAMES,
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
_HEIGHT = 240
# More blocks than this are not told apart by lines between them.
_GRID = 25


def paired(point: Point) -> Chart | None:
    """The deciding measure of every run: block by block, of many arms row by row."""
    comparison = point.comparison
    if len(comparison.arms) < 2:
        return None
    measure = view.deciding(comparison)
    known = BY_NAME.get(comparison.ranking.measure)
    if measure is None or known is None:
        return None
    arms = view.listed(comparison)
    many = len(arms) > palette.MANY
    look = Look(arms, among=point.everyone, margin=ROW_NAMES if many else AXIS)
    raw = [
        {**look.fields(arm.name), "block": block, "value": value}
        for arm in arms
        for block, value in _by_block(arm, known).items()
    ]
    if not raw:
        return None
    rows, unit = scaled(raw, measure.unit, ("value",))
    for row in rows:
        value = " ".join(part for part in (formatting.number(row["value"]), unit) if part)
        # A row has the name of its arm at the left.
        row["said"] = f"{'' if many else row['title'] + ', '}block {row['block']}: {value}"
    drawn = _row_by_row if many else _block_by_block
    note, made = drawn(look, rows, unit)
    label = formatting.capital(formatting.headed(measure.label, unit))
    return Chart(f"{point.key}paired", f"{label} by block", note, made)


def _by_block(arm: JudgedArm, measure: Measure) -> dict[int, float]:
    """The values of an arm; two runs of one block stand for one, as in the statistics."""
    blocks: dict[int, list[float]] = {}
    for sample in arm.samples:
        value = value_in(sample, measure)
        if value > 0:
            blocks.setdefault(sample.block + 1, []).append(value)
    return {block: statistics.geometric_mean(values) for block, values in blocks.items()}


def _block_by_block(look: Look, rows: Sequence[Json], unit: str) -> tuple[str, Json]:
    """The runs of a block above each other: what happened to all of them moves all of them."""
    blocks = sorted({row["block"] for row in rows})
    scale, axis = _values(rows, unit)
    base = data(rows).encode(
        x=alt.X(
            "block:O",
            title="block",
            axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=len(blocks) <= _GRID, ticks=False),
        ),
    )
    ends = [
        {
            "block": block,
            "low": min(row["value"] for row in rows if row["block"] == block),
            "high": max(row["value"] for row in rows if row["block"] == block),
        }
        for block in blocks
    ]
    join = (
        data(ends)
        .mark_rule(color=GREY, opacity=0.6)
        .encode(alt.X("block:O"), alt.Y("low:Q", title=None), alt.Y2("high:Q"))
    )
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=alt.Y("value:Q", title=None, scale=scale, axis=axis),
        color=look.colour(),
        shape=look.shape(),
        description=alt.Description("said:N"),
    )
    note = (
        "The runs of a block stand above each other. Where the distance between arms is the same "
        "in all blocks, it does not depend on when it was measured."
    )
    return note, spec([join, points], _HEIGHT)


def _row_by_row(look: Look, rows: Sequence[Json], unit: str) -> tuple[str, Json]:
    scale, axis = _values(rows, unit)
    points = (
        data(rows)
        .mark_point(filled=True, size=45, opacity=0.7)
        .encode(
            y=look.rows(),
            x=alt.X("value:Q", title=None, scale=scale, axis=axis),
            color=look.colour(legend=look.legend_of_versions()),
            description=alt.Description("said:N"),
        )
    )
    return "One point per block.", spec(points, row_height(look.lines) * len(look.arms))


def _values(rows: Sequence[Json], unit: str) -> tuple[alt.Scale, alt.Axis]:
    low, high = min(row["value"] for row in rows), max(row["value"] for row in rows)
    if high / low > _WIDE:
        return log_axis(low / 1.1, high * 1.1)
    axis = alt.Axis(labelOverlap=True, tickCount=5)
    if unit == "/s":
        axis.format = "~s"
    return alt.Scale(zero=False, padding=10), axis


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
                title="time (s)",
                scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(format=PLAIN),
            ),
            alt.Y("rate:Q", title=None, axis=alt.Axis(format="~s")),
            color=look.colour(),
            detail=alt.Detail("run:N"),
            description=alt.Description("run:N"),
        )
    )
    return Chart(
        f"{point.key}windows",
        "Requests per second within the runs",
        "One line per run. A slope means that the run had not settled.",
        spec(lines, _HEIGHT),
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

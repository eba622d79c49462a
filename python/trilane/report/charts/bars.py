"""Bars with intervals: a chart for each measure, its number at the end of every bar."""

from __future__ import annotations

import altair as alt

from trilane.lab.model.comparison import Comparison, Shown
from trilane.report import formatting, palette, view
from trilane.report.charts.base import (
    ROW_NAMES,
    SMALL,
    Chart,
    Look,
    data,
    interval,
    row_height,
    said,
    scaled,
    spec,
    whiskers,
)
from trilane.report.view import Point

_BAR = 15
# Of the width that the bars have: for the number at the end of the longest.
_NUMBER = 1.35
# What is asked after the measure that decides, and how much of it a first screen has room for.
_ASKED = (
    "elapsed_s",
    "requests_per_s",
    "p50",
    "p99",
    "server_cpu_us_per_request",
    "client_cpu_us_per_request",
    "bytes_per_request",
    "peak_rss_bytes",
)
_FIRST, _FIRST_OF_MANY = 5, 3
# Arms that a first screen has room for; the numbers have all.
_BEST = 12


def bars(point: Point) -> tuple[list[Chart], list[Chart]]:
    """The measures that are looked at first, the one that decides before all, and the others."""
    first = matter(point)
    others = [measure for measure in _measures(point.comparison) if measure not in first]
    drawn = [_bars(point, each, most=_BEST) for each in first]
    return drawn, [_bars(point, each, most=_BEST) for each in others]


def _measures(comparison: Comparison) -> list[Shown]:
    measures = view.measures(comparison)
    if any(view.searches(arm) for arm in comparison.arms):
        # Their runs are at rates of their own: what else is known of them would mislead.
        measures = [measure for measure in measures if measure.name == comparison.ranking.measure]
    return measures


def matter(point: Point) -> list[Shown]:
    """The measure that decides, and those that are looked at first beside it."""
    comparison = point.comparison
    decides = comparison.ranking.measure
    known = {measure.name: measure for measure in _measures(comparison)}
    most = _FIRST if len(comparison.arms) <= palette.MANY else _FIRST_OF_MANY
    wanted = [decides, *(name for name in _ASKED if name != decides)]
    return [known[name] for name in wanted if name in known][:most]


def at_point(point: Point) -> Chart | None:
    """The deciding measure as bars: the chart of a post, one per value of a sweep."""
    measure = view.deciding(point.comparison)
    return None if measure is None else _bars(point, measure, f" at {point.label}", _BEST)


def _bars(point: Point, measure: Shown, where: str = "", most: int | None = None) -> Chart:
    known = [
        arm
        for arm in view.listed(point.comparison)
        if view.summary(arm, measure).median is not None
    ]
    arms = known[:most]
    best = f"the best {len(arms)} of {len(known)}, " if len(arms) < len(known) else ""
    look = Look(arms, among=point.everyone, margin=ROW_NAMES)
    rows, unit = scaled(
        ({**look.fields(arm.name), **interval(view.summary(arm, measure))} for arm in arms),
        measure.unit,
        ("median", "low", "high"),
    )
    for row in rows:
        row["label"] = formatting.number(row["median"])
        row["said"] = said(row, unit)
        row["end"] = row["median"] if row["high"] is None else row["high"]
    longest = max(row["end"] for row in rows) or 1.0
    base = data(rows).encode(y=look.rows())
    drawn = base.mark_bar(height=_BAR).encode(
        # The numbers at the bars are the axis.
        alt.X("median:Q", axis=None, scale=alt.Scale(domain=[0, _NUMBER * longest], nice=False)),
        color=look.colour(legend=look.legend_of_versions()),
        description=alt.Description("said:N"),
    )
    numbers = base.mark_text(align="left", dx=6).encode(alt.X("end:Q"), alt.Text("label:N"))
    return Chart(
        f"{point.key}{'deciding' if where else f'bars-{measure.name}'}",
        f"{formatting.headed(formatting.capital(measure.label), unit)}{where}",
        f"{best}{measure.better} is better",
        spec([drawn, whiskers(base), numbers], row_height(look.lines) * len(arms), SMALL),
    )

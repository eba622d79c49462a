"""Latency distributions: lines over percentiles, and for many arms one row each."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from trilane.lab.model.documents import Json
from trilane.report import palette, view
from trilane.report.charts.base import (
    ROW_NAMES,
    Chart,
    Look,
    data,
    legend,
    log_axis,
    log_ticks,
    parts,
    plain,
    row_height,
    said,
    spec,
)
from trilane.report.distribution import Band, bands_of
from trilane.report.view import Point

# Tick labels of the percentile axis, at 1 / (1 - q).
_PERCENTILES = {2: "p50", 10: "p90", 100: "p99", 1_000: "p99.9", 10_000: "p99.99"}
_ROW = (0.5, 0.9, 0.99, 0.999)


def latency(point: Point) -> list[Chart]:
    """The chart of all arms, then, when they are many, one chart per client."""
    comparison, key = point.comparison, point.key
    bands = {arm.name: bands_of(view.runs(arm)) for arm in comparison.arms}
    # One percentile alone does not show a distribution: a run of one request has nothing else.
    arms = [arm for arm in view.listed(comparison) if len(bands[arm.name]) > 1]
    if not arms:
        return []
    if len(arms) <= palette.MANY:
        look = Look(arms, among=point.everyone)
        return [_lines(look, bands, f"{key}latency", "Latency (ms) by percentile")]
    return [
        _rows(Look(arms, among=point.everyone, margin=ROW_NAMES), bands, key),
        *(
            _lines(
                Look(part),
                bands,
                f"{key}latency-{plain(client)}-{number}",
                f"Latency (ms) of {client} by percentile",
            )
            for client, group in view.clients(arms).items()
            for number, part in enumerate(parts(group), start=1)
        ),
    ]


def _data(look: Look, bands: dict[str, list[Band]]) -> list[Json]:
    rows = [
        {
            **look.fields(arm.name),
            "x": round(1 / (1 - band.q), 4),
            "q": band.q,
            "percentile": f"p{100 * band.q:.4g}",
            "exact": band.exact,
            "median": round(band.median * 1e3, 6),
            "low": round(band.low * 1e3, 6),
            "high": round(band.high * 1e3, 6),
        }
        for arm in look.arms
        for band in bands[arm.name]
        if band.low > 0
    ]
    for row in rows:
        row["said"] = f"{row['percentile']} of {said(row, 'ms')}"
    return rows


def _lines(look: Look, bands: dict[str, list[Band]], name: str, title: str) -> Chart:
    rows = _data(look, bands)
    axis = percentile_axis(max(row["x"] for row in rows))
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    time = alt.Y(
        "low:Q",
        title=None,
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format=",~g", values=log_ticks(low, high)),
    )
    curves = [row for row in rows if row["exact"]]
    single = [row for row in rows if not row["exact"]]
    layers: list[alt.Chart] = []
    note = ""
    if curves:
        base = data(curves).encode(axis, color=look.colour())
        layers += [
            base.mark_area(opacity=0.25).encode(time, alt.Y2("high:Q")),
            base.mark_line(strokeWidth=2).encode(
                alt.Y("median:Q"), description=alt.Description("title:N")
            ),
        ]
        note += "Line: median over runs of each percentile; band: lowest to highest run. "
    if single:
        base = data(single).encode(axis, color=look.colour())
        layers += [
            base.mark_rule(strokeWidth=2, opacity=0.5).encode(time, alt.Y2("high:Q")),
            base.mark_point(filled=True, size=70, opacity=1).encode(
                alt.Y("median:Q"), shape=look.shape(), description=alt.Description("said:N")
            ),
        ]
        note += "Points: clients that report percentiles only; line: lowest to highest run. "
    return Chart(
        name,
        title,
        f"{note}In a closed model the mean is only in flight ÷ rate. Log scales.",
        spec(layers, 280),
    )


def percentile_axis(furthest: float) -> alt.X:
    """The axis of percentiles, up to the one at which 1 / (1 - q) is `furthest`."""
    ticks = [tick for tick in _PERCENTILES if tick <= furthest * 1.01]
    label = " : ".join(f"datum.value == {tick} ? '{_PERCENTILES[tick]}'" for tick in ticks)
    return alt.X(
        "x:Q",
        title=None,
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(values=ticks, labelExpr=f"{label} : ''"),
    )


def _rows(look: Look, bands: dict[str, list[Band]], key: str) -> Chart:
    # Arms that tell no latency are not among those that are looked at.
    rows = _data(look, {arm.name: _nearest(bands[arm.name]) for arm in look.arms})
    scale, ticks = log_axis(
        min(row["median"] for row in rows) / 1.1, max(row["median"] for row in rows) * 1.1
    )
    base = data(rows).encode(y=look.rows())
    axis = alt.X("median:Q", title=None, scale=scale, axis=ticks)
    shown = [f"p{100 * q:.4g}" for q in _ROW]
    line = base.mark_line(strokeWidth=2, opacity=0.5).encode(
        axis, color=look.colour(legend=look.legend_of_versions()), detail=alt.Detail("arm:N")
    )
    point = base.mark_point(filled=True, size=60, opacity=1).encode(
        alt.X("median:Q"),
        color=look.colour(legend=look.legend_of_versions()),
        shape=alt.Shape(
            "percentile:N",
            scale=alt.Scale(domain=shown, range=["circle", "square", "triangle-up", "diamond"]),
            legend=legend(shown, ROW_NAMES),
        ),
        description=alt.Description("said:N"),
    )
    return Chart(
        f"{key}latency",
        "Latency (ms)",
        "Each percentile is the median over runs. In a closed model the mean is only in flight ÷ "
        "rate. Log scale.",
        spec([line, point], row_height(look.lines) * len(look.arms)),
    )


def _nearest(bands: Sequence[Band]) -> list[Band]:
    """The bands of the percentiles that people name, where the samples suffice for them."""
    chosen = []
    for q in _ROW:
        found = min(bands, key=lambda band: abs(band.q - q))
        if abs(found.q - q) <= 0.1 * (1 - q):
            chosen.append(Band(q, found.median, found.low, found.high, found.exact))
    return chosen

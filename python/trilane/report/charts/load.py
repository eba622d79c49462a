"""Latency against load: what searches for the highest rate that holds have tried."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from trilane.lab.model.capacity import Capacity, Tried
from trilane.lab.model.documents import Json
from trilane.lab.model.measures import CAPACITY
from trilane.quantity import SECONDS
from trilane.report import formatting, palette, view
from trilane.report.charts.base import (
    GREY,
    PLAIN,
    Chart,
    data,
    height_scale,
    legend,
    log_ticks,
    spec,
)
from trilane.report.view import Point

_WIDE = 8
_PER_OCTAVE = 7
_P50, _P99 = "p50", "p99"
_DASHES = {_P99: [1, 0], _P50: [4, 4]}
_HELD, _MISSED = "held", "did not hold"
# A goal of which the limit can be drawn.
_LIMIT = re.compile(r"(p\d+(?:\.\d+)?)\s*<=?\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m)")


@dataclass(frozen=True, slots=True)
class Series:
    """One program, and what was searched of it."""

    name: str
    colour: str
    searches: Sequence[Capacity]
    low: float | None = None
    """Ends of the interval of the highest rate that holds, requests per second."""
    high: float | None = None


def of_search(capacity: Capacity, name: str, colour: str) -> Series:
    """One search as a series."""
    return Series(name, colour, [capacity], capacity.low_per_s, capacity.high_per_s)


def load(point: Point) -> Chart | None:
    """Of the arms of a point whose runs are searches; None where none is."""
    arms = [arm for arm in point.comparison.arms if view.searches(arm)]
    if not arms:
        return None
    hues = palette.hues(point.everyone)
    series = []
    for arm in arms:
        found = arm.summary.get(CAPACITY.name)
        low, high = (None, None) if found is None else (found.low, found.high)
        hue = hues[arm.name]
        series.append(Series(hue.entry, hue.colour, view.searches(arm), low, high))
    return latency_against_load(series, point.key)


def latency_against_load(series: Sequence[Series], key: str = "") -> Chart | None:
    """The chart; None where no run has a latency."""
    rows = [row for one in series for search in one.searches for row in _rows(one, search)]
    if not rows:
        return None
    rates = [row["rate"] for row in rows]
    times = [row["latency"] for row in rows]
    across = max(rates) / min(rates) >= _WIDE
    tall = max(times) / min(times) >= _WIDE
    limits = _limits(series)
    rate = alt.X(
        "rate:Q",
        title="requests/s asked for",
        scale=alt.Scale(type="log", nice=False, padding=14)
        if across
        else alt.Scale(zero=False, nice=False, padding=14),
        axis=alt.Axis(format="~s", values=log_ticks(min(rates), max(rates)))
        if across
        else alt.Axis(format=PLAIN),
    )
    latency = alt.Y(
        "latency:Q",
        title=None,
        scale=height_scale([*times, *(each["limit"] for each in limits)], log=tall),
        axis=alt.Axis(format=",~g", values=log_ticks(min(times), max(times)))
        if tall
        else alt.Axis(format=PLAIN),
    )
    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=[s.name for s in series], range=[s.colour for s in series]),
        legend=legend(s.name for s in series),
    )
    names = [name for name in _DASHES if any(row["quantile"] == name for row in rows)]
    lines = (
        data(_medians(series, rows))
        .mark_line(strokeWidth=2)
        .encode(
            rate,
            latency,
            color=colour,
            strokeDash=alt.StrokeDash(
                "quantile:N",
                scale=alt.Scale(domain=names, range=[_DASHES[name] for name in names]),
                legend=legend(names),
            ),
        )
    )
    points = (
        data([row for row in rows if row["quantile"] == _P99] or rows)
        .mark_point(size=55, opacity=0.9)
        .encode(
            rate,
            latency,
            color=colour,
            shape=alt.Shape(
                "held:N",
                scale=alt.Scale(domain=[_HELD, _MISSED], range=["circle", "cross"]),
                legend=legend([_HELD, _MISSED]),
            ),
            description=alt.Description("said:N"),
        )
    )
    layers = [*_intervals(series, colour), *_limit_lines(limits), lines, points]
    bands = any(one.low is not None and one.high is not None for one in series)
    return Chart(
        f"{key}load",
        "Latency (ms) against load",
        "Each point is a run: its latency from when requests were due. Lines: medians of the runs "
        "at a rate. "
        + ("Bands: 95 % interval of the highest rate that holds. " if bands else "")
        + ("Dashed across: what is asked of a latency. " if limits else "")
        + ("Log scales." if across and tall else "Log scale." if across or tall else ""),
        spec(layers, 340),
    )


def _rows(series: Series, search: Capacity) -> list[Json]:
    return [
        {
            "arm": series.name,
            "rate": run.rate_per_s,
            "quantile": name,
            "latency": value * 1e3,
            "held": _HELD if run.held else _MISSED,
            "said": f"{series.name} at {run.rate_per_s:,.0f} requests/s, "
            f"{run.reached_per_s:,.0f} ok: {name} {formatting.quantity(value, 's')}, "
            + (_HELD if run.held else "; ".join([_MISSED, *run.why])),
        }
        for run in search.tried
        for name, value in _quantiles(run)
        if run.rate_per_s > 0
    ]


def _quantiles(run: Tried) -> list[tuple[str, float]]:
    return [(name, value) for name, value in ((_P50, run.p50), (_P99, run.p99)) if value]


def _medians(series: Sequence[Series], rows: Sequence[Json]) -> list[Json]:
    """The median latency at each rate; of several searches, at rates that are nearly the same."""
    found: dict[tuple[str, str, float], list[Json]] = {}
    several = any(len(one.searches) > 1 for one in series)
    for row in rows:
        place = _bucket(row["rate"]) if several else row["rate"]
        found.setdefault((row["arm"], row["quantile"], place), []).append(row)
    return [
        {
            "arm": arm,
            "quantile": quantile,
            "rate": statistics.median(row["rate"] for row in group),
            "latency": statistics.median(row["latency"] for row in group),
        }
        for (arm, quantile, _), group in sorted(found.items())
    ]


def _bucket(rate: float) -> float:
    """The nearest of rates that are a seventh of an octave, a tenth of the rate, apart."""
    return float(2 ** (round(math.log2(rate) * _PER_OCTAVE) / _PER_OCTAVE))


def _intervals(series: Sequence[Series], colour: alt.Color) -> list[alt.Chart]:
    bands = [
        {
            "arm": one.name,
            "low": one.low,
            "high": one.high,
            "said": f"{one.name}: the highest rate that holds is "
            f"{formatting.interval(one.low, one.high)} requests/s",
        }
        for one in series
        if one.low is not None and one.high is not None
    ]
    if not bands:
        return []
    return [
        data(bands)
        .mark_rect(opacity=0.18)
        .encode(
            alt.X("low:Q"),
            alt.X2("high:Q"),
            color=colour,
            description=alt.Description("said:N"),
        )
    ]


def _limits(series: Sequence[Series]) -> list[Json]:
    """What is asked of the latencies."""
    goals = dict.fromkeys(
        goal for one in series for search in one.searches for goal in search.goals
    )
    return [
        {"goal": goal, "limit": float(match[2]) * SECONDS[match[3]] * 1e3}
        for goal in goals
        if (match := _LIMIT.fullmatch(goal))
    ]


def _limit_lines(limits: Sequence[Json]) -> list[alt.Chart]:
    if not limits:
        return []
    return [
        data(limits)
        .mark_rule(color=GREY, strokeDash=[6, 4], strokeWidth=1.5)
        .encode(alt.Y("limit:Q"), alt.Description("goal:N"))
    ]

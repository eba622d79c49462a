"""Bars with intervals: rates, times, CPU, bytes, calls and memory of every arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Shown
from trilane.report import formatting, view
from trilane.report.charts.base import (
    GREY,
    Chart,
    Look,
    data,
    interval,
    interval_tips,
    row_height,
    scaled,
    spec,
    titled,
    whiskers,
)
from trilane.report.view import Point

_BAR = 15
_SHADES = (1.0, 0.62, 0.36)


@dataclass(frozen=True, slots=True)
class _Group:
    """Measures of one unit that belong beside each other."""

    name: str
    title: str
    axis: str
    note: str
    measures: dict[str, str]
    """Name of a measure -> what its bar is called beside the others."""


_GROUPS = (
    _Group("rate", "Requests per second", "requests/s", "", {"requests_per_s": "requests/s"}),
    _Group(
        "time",
        "Time",
        "time",
        "Elapsed: from the start of the workload to its end. Whole process: with its start.",
        {
            "elapsed_s": "elapsed",
            "total_s": "whole process",
            "repetition_s": "mean of the repetitions",
        },
    ),
    _Group(
        "cpu-time",
        "CPU time",
        "CPU time",
        "Of the whole client process, its start and its children included.",
        {"user_s": "user", "system_s": "system"},
    ),
    _Group(
        "cpu-share",
        "CPU",
        "CPU",
        "User and system time of the client process ÷ its wall time.",
        {"cpu_percent": "CPU"},
    ),
    _Group(
        "cpu",
        "CPU per request",
        "CPU per request",
        "User and system time; the server's, when it is ours, of its whole process.",
        {"client_cpu_us_per_request": "client", "server_cpu_us_per_request": "server"},
    ),
    _Group(
        "bytes",
        "Bytes per request",
        "bytes per request, sent + received",
        "Payload: of TCP or UDP, encryption and headers included. Wire: packet headers, "
        "acknowledgements and handshakes as well, of all programs on the interface.",
        {"bytes_per_request": "payload", "wire_bytes_per_request": "wire"},
    ),
    _Group(
        "calls",
        "Calls into the kernel per request",
        "per request",
        "",
        {
            "context_switches_per_request": "context switches",
            "syscalls_per_request": "system calls",
        },
    ),
    _Group("memory", "Memory", "peak resident memory", "", {"peak_rss_bytes": "peak"}),
    _Group(
        "wait",
        "Mean latency and first byte",
        "time",
        "In a closed model the mean is only in flight ÷ rate.",
        {"mean_s": "mean latency", "ttfb_p50": "time to first byte, p50"},
    ),
)


def bars(point: Point) -> list[Chart]:
    """One chart per group of measures that has values; the group that decides first."""
    comparison = point.comparison
    known = {measure.name: measure for measure in view.measures(comparison)}
    first = comparison.ranking.measure
    groups = sorted(_GROUPS, key=lambda group: first not in group.measures)
    made = []
    for group in groups:
        found = [known[name] for name in group.measures if name in known]
        if found:
            made.append(_group(point, group, found))
    return made


def at_point(point: Point) -> Chart | None:
    """The deciding measure as bars: the chart of a post, one per value of a sweep."""
    measure = view.deciding(point.comparison)
    if measure is None:
        return None
    title = formatting.capital(f"{measure.label} at {point.label}")
    group = _Group("deciding", title, measure.label, "", {measure.name: ""})
    return _group(point, group, [measure])


def _group(point: Point, group: _Group, measures: Sequence[Shown]) -> Chart:
    arms = [
        arm
        for arm in view.listed(point.comparison)
        if any(view.summary(arm, measure).median is not None for measure in measures)
    ]
    look = Look(arms, among=point.everyone)
    rows, unit = scaled(
        (
            {**look.fields(arm.name), "part": group.measures[measure.name], **interval(found)}
            for arm in arms
            for measure in measures
            if (found := view.summary(arm, measure)).median is not None
        ),
        measures[0].unit,
        ("median", "low", "high"),
    )
    for row in rows:
        row["label"] = formatting.number(row["median"])
        row["end"] = row["median"] if row["high"] is None else row["high"]
    parts = [group.measures[measure.name] for measure in measures]
    several = len(parts) > 1
    base = data(rows).encode(y=look.rows())
    if several:
        base = base.encode(yOffset=alt.YOffset("part:N", sort=parts))
    alone = not several and unit and len(group.measures) > 1
    title = formatting.headed(measures[0].label if alone else group.axis, unit)
    bars = (base.mark_bar() if several else base.mark_bar(height=_BAR)).encode(
        alt.X(
            "median:Q",
            title=titled(title),
            axis=alt.Axis(format="~s", tickCount=6) if unit == "/s" else alt.Axis(tickCount=6),
            # Room for the number at the end of the longest bar.
            scale=alt.Scale(domainMax=1.25 * max(row["end"] for row in rows) or 1.0, nice=False),
        ),
        color=look.colour(legend=look.legend_of_versions()),
        tooltip=[
            alt.Tooltip("title:N", title="arm"),
            *([alt.Tooltip("part:N", title="what")] if several else []),
            *interval_tips(unit),
        ],
    )
    if several:
        bars = bars.encode(
            opacity=alt.Opacity(
                "part:O",
                scale=alt.Scale(domain=parts, range=_SHADES[: len(parts)]),
                legend=alt.Legend(
                    orient="top", title=None, symbolFillColor=GREY, symbolStrokeWidth=0
                ),
            )
        )
    layers = [bars, whiskers(base)]
    if not several:
        layers.append(
            base.mark_text(align="left", dx=6, color=GREY).encode(
                alt.X("end:Q"), alt.Text("label:N")
            )
        )
    height = row_height(look.lines, len(parts)) * len(arms)
    level = looks.percent(point.comparison.plan.level)
    note = f"{group.note} Grey line: {level} interval.".strip()
    return Chart(
        f"{point.key}{group.name}",
        group.title,
        note,
        spec(alt.layer(*layers), height),
    )

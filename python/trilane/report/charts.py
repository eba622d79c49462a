"""Charts of a comparison as Vega-Lite specifications; every axis carries its unit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from trilane.lab.arms import TITLES
from trilane.lab.measures import CLIENT_CPU, RACE, SERVER_CPU, Json
from trilane.report.distribution import quantile_bands

# Okabe-Ito hues, moved so that each keeps 3:1 contrast on white and on near-black.
COLOURS = {"h1": "#3f87c8", "h2": "#d97f14", "h2c": "#d97f14", "h3": "#27987a"}
_GREY = "#8a8f98"
_BAR = 18
_FULL_WINDOW_S = 0.99
# Tick labels of the percentile axis, at 1 / (1 - q).
_PERCENTILES = {2: "p50", 10: "p90", 100: "p99", 1_000: "p99.9", 10_000: "p99.99"}


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the report."""

    name: str
    title: str
    note: str
    spec: Json


def charts(comparison: Json) -> list[Chart]:
    """The figures that this comparison has data for."""
    made = (
        _ratios(comparison),
        _latency(comparison),
        _windows(comparison),
        _cpu(comparison),
        _bytes(comparison),
    )
    return [chart for chart in made if chart is not None]


def _ratios(comparison: Json) -> Chart | None:
    measures = {measure.name: measure.label for measure in RACE}
    rows = [
        {
            "measure": measures[row["measure"]],
            "arm": TITLES[row["arm"]],
            **{key: row[key] for key in ("ratio", "low", "high", "finding")},
        }
        for row in comparison["ratios"]
        if row["ratio"] is not None
    ]
    if not rows:
        return None
    shown = [label for label in measures.values() if any(r["measure"] == label for r in rows)]
    floors = [
        {"measure": measures[name], "low": floor["low"], "high": floor["high"]}
        for name, floor in comparison["noise_floor"].items()
        if floor and measures[name] in shown
    ]
    baseline = TITLES[comparison["baseline"]]
    arms = [arm for arm in comparison["arms"] if arm["name"] != comparison["baseline"]]
    ends = [row[end] for row in [*rows, *floors] for end in ("low", "high")]
    low, high = min([*ends, 0.95]) / 1.03, max([*ends, 1.05]) * 1.03
    axis = alt.X(
        "low:Q",
        title=f"ratio to {baseline} (×)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format="~g", values=_ratio_ticks(low, high)),
    )
    measure = alt.Y(
        "measure:N", title="measure", sort=shown, axis=alt.Axis(labelLimit=220, titlePadding=8)
    )
    floor = (
        alt.Chart(alt.Data(values=floors))
        .mark_bar(color=_GREY, opacity=0.3, height=alt.RelativeBandSize(0.9))
        .encode(axis, alt.X2("high:Q"), measure)
    )
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(color=_GREY).encode(alt.X("one:Q"))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=measure,
        yOffset=alt.YOffset("arm:N", sort=[arm["title"] for arm in arms]),
        color=_colour(arms),
    )
    whisker = base.mark_rule(strokeWidth=3).encode(axis, alt.X2("high:Q"))
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        alt.X("ratio:Q"),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("measure:N"),
            alt.Tooltip("ratio:Q", format=".3f"),
            alt.Tooltip("low:Q", format=".3f"),
            alt.Tooltip("high:Q", format=".3f"),
            alt.Tooltip("finding:N"),
        ],
    )
    return Chart(
        "ratios",
        f"Ratio to {baseline}",
        "Point: centre over blocks; line: 95 % interval; "
        f"grey: noise floor, {baseline} against itself. Log scale.",
        _spec(alt.layer(floor, one, whisker, point), step=44, rows=len(shown)),
    )


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between the ends, denser the closer the ends are."""
    if high / low < 1.5:
        steps = [1 + 0.05 * step for step in range(-10, 11)]
    elif high / low < 8:
        steps = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5]
    else:
        return _log_ticks(low, high)
    return [round(step, 6) for step in steps if low <= step <= high]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between the ends, with 2 and 5 between them unless they would crowd."""
    digits = (1, 2, 5) if high / low < 200 else (1,)
    steps = [digit * 10.0**power for power in range(-6, 7) for digit in digits]
    return [round(step, 9) for step in steps if low <= step <= high]


def _latency(comparison: Json) -> Chart | None:
    rows = [
        {
            "arm": arm["title"],
            "x": 1 / (1 - band.q),
            "percentile": f"p{100 * band.q:.4g}",
            "median": band.median * 1e3,
            "low": band.low * 1e3,
            "high": band.high * 1e3,
        }
        for arm in comparison["arms"]
        for band in quantile_bands(arm["runs"])
    ]
    if not rows:
        return None
    ticks = [tick for tick in _PERCENTILES if tick <= max(row["x"] for row in rows) * 1.01]
    label = " : ".join(f"datum.value == {tick} ? '{_PERCENTILES[tick]}'" for tick in ticks)
    axis = alt.X(
        "x:Q",
        title="percentile of requests (%)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(values=ticks, labelExpr=f"{label} : ''"),
    )
    base = alt.Chart(alt.Data(values=rows)).encode(color=_colour(comparison["arms"]))
    band = base.mark_area(opacity=0.25).encode(
        axis,
        alt.Y(
            "low:Q",
            title="service time (ms)",
            scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(
                format="~g",
                values=_log_ticks(
                    min(row["low"] for row in rows), max(row["high"] for row in rows)
                ),
            ),
        ),
        alt.Y2("high:Q"),
    )
    line = base.mark_line(strokeWidth=2).encode(
        alt.X("x:Q"),
        alt.Y("median:Q"),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("percentile:N"),
            alt.Tooltip("median:Q", format=".3~g", title="median of runs (ms)"),
            alt.Tooltip("low:Q", format=".3~g", title="lowest run (ms)"),
            alt.Tooltip("high:Q", format=".3~g", title="highest run (ms)"),
        ],
    )
    return Chart(
        "latency",
        "Latency distribution",
        "Line: median over runs of each percentile; band: lowest to highest run. Closed model: "
        "the mean is only in flight ÷ rate. Log scales.",
        _spec(alt.layer(band, line), height=280),
    )


def _cpu(comparison: Json) -> Chart | None:
    sides = {CLIENT_CPU.name: "client", SERVER_CPU.name: "server"}
    rows = [
        {"arm": arm["title"], "side": side, **arm["summary"][name]}
        for arm in comparison["arms"]
        for name, side in sides.items()
        if arm["summary"][name]["median"] is not None
    ]
    if not rows:
        return None
    shown = [side for side in sides.values() if any(row["side"] == side for row in rows)]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("arm:N", title="arm", sort=_titles(comparison)),
        yOffset=alt.YOffset("side:N", sort=shown),
    )
    bars = base.mark_bar().encode(
        alt.X("median:Q", title="CPU per request (µs)"),
        color=_colour(comparison["arms"], legend=False),
        opacity=alt.Opacity(
            "side:O",
            title=None,
            scale=alt.Scale(domain=shown, range=[1.0, 0.55][: len(shown)]),
            legend=alt.Legend(orient="top", symbolFillColor=_GREY, symbolStrokeWidth=0),
        ),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("side:N"),
            alt.Tooltip("median:Q", format=".2f", title="median (µs)"),
            alt.Tooltip("low:Q", format=".2f", title="low (µs)"),
            alt.Tooltip("high:Q", format=".2f", title="high (µs)"),
        ],
    )
    return Chart(
        "cpu",
        "CPU per request",
        "User and system time of the worker threads; the server's, when it is ours, of its whole "
        "process over warm-up and run. Grey line: 95 % interval.",
        _spec(alt.layer(bars, _whiskers(base)), step=52, rows=len(comparison["arms"])),
    )


def _bytes(comparison: Json) -> Chart | None:
    rows = [
        {"arm": arm["title"], **arm["summary"]["bytes_per_request"]}
        for arm in comparison["arms"]
        if arm["summary"]["bytes_per_request"]["median"] is not None
    ]
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("arm:N", title="arm", sort=_titles(comparison))
    )
    bars = base.mark_bar(height=_BAR).encode(
        alt.X("median:Q", title="bytes per request, sent + received (B)"),
        color=_colour(comparison["arms"], legend=False),
        tooltip=[alt.Tooltip("arm:N"), alt.Tooltip("median:Q", format=",.1f", title="bytes (B)")],
    )
    return Chart(
        "bytes",
        "Bytes per request",
        "Payload of TCP or UDP in both directions, encryption and headers included. "
        "Grey line: 95 % interval.",
        _spec(alt.layer(bars, _whiskers(base)), step=36, rows=len(comparison["arms"])),
    )


def _windows(comparison: Json) -> Chart | None:
    rows = [
        {
            "arm": arm["title"],
            "run": f"{arm['title']} {number + 1}",
            "second": window["start_s"] + 1,
            "rate": window["ok"],
        }
        for arm in comparison["arms"]
        for number, run in enumerate(arm["runs"])
        for window in _whole(run)
    ]
    if not rows:
        return None
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
            color=_colour(comparison["arms"]),
            detail=alt.Detail("run:N"),
            tooltip=[
                alt.Tooltip("run:N"),
                alt.Tooltip("second:Q"),
                alt.Tooltip("rate:Q", format=",", title="requests/s"),
            ],
        )
    )
    return Chart(
        "windows",
        "Requests per second, second by second",
        "One line per run. A slope means that the run had not settled.",
        _spec(lines, height=240),
    )


def _whole(run: Json) -> list[Json]:
    """Windows of a full second: the rest of a run would look like a slump."""
    return [window for window in run["windows"] if window["length_s"] > _FULL_WINDOW_S]


def _ticks(last: int) -> list[int]:
    step = max(1, round(last / 8))
    return list(range(1, last + 1, step))


def _whiskers(base: alt.Chart) -> alt.Chart:
    rules: alt.Chart = base.mark_rule(color=_GREY, strokeWidth=2).encode(
        alt.X("low:Q"), alt.X2("high:Q")
    )
    return rules


def _titles(comparison: Json) -> list[str]:
    return [arm["title"] for arm in comparison["arms"]]


def _colour(arms: Sequence[Json], *, legend: bool = True) -> alt.Color:
    return alt.Color(
        "arm:N",
        title="arm",
        scale=alt.Scale(
            domain=[arm["title"] for arm in arms],
            range=[COLOURS[arm["version"]] for arm in arms],
        ),
        legend=alt.Legend(orient="top", symbolOpacity=1, title=None) if legend else None,
    )


def _spec(
    chart: alt.LayerChart | alt.FacetChart | alt.Chart,
    *,
    height: int | None = None,
    step: int | None = None,
    rows: int = 1,
) -> Json:
    sized = chart.properties(width="container", height=height or (step or 40) * rows)
    spec: Any = json.loads(sized.to_json(validate=True))
    spec.pop("config", None)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return dict(spec)

"""Charts of a result as Vega-Lite specifications; every axis carries its unit."""

from __future__ import annotations

from dataclasses import dataclass

from altair.utils.schemapi import debug_mode

from trilane.lab.model.lab import LabResult
from trilane.report import palette, view
from trilane.report.charts.bars import at_point, bars
from trilane.report.charts.base import Chart
from trilane.report.charts.flame import flames
from trilane.report.charts.heat import heat
from trilane.report.charts.latency import latency
from trilane.report.charts.load import load
from trilane.report.charts.published import published
from trilane.report.charts.ratios import forests
from trilane.report.charts.runs import paired, windows
from trilane.report.charts.sweeps import sweeps
from trilane.report.maps import NETWORK
from trilane.report.view import Point

# Altair would check each part of a chart as it is made, a third of the time that a report takes;
# the tests check every kind of chart.
_unchecked = debug_mode(False)

__all__ = [
    "Chart",
    "Figures",
    "charts",
    "first",
    "of_point",
    "of_sweep",
    "profiles",
    "published",
]


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts under one heading: those everybody looks at, and those a click away."""

    title: str
    shown: list[Chart]
    folded: list[Chart]
    fold: str = ""
    """What the folded charts are."""


@_unchecked
def first(point: Point) -> Figures | None:
    """The measures that matter, as bars; None where nothing was measured."""
    found, _ = bars(point)
    return Figures("Measures", found, []) if found else None


@_unchecked
def of_point(point: Point) -> list[Figures]:
    """The figures that this point has data for, but for those of `first`."""
    ratios = forests(point)
    searched = load(point)
    if searched is not None:
        # Their runs are at rates of their own: side by side they would mislead.
        blocks = paired(point)
        figures = [
            Figures("Load", [searched], []),
            Figures("Ratios", ratios[:1], ratios[1:], "Ratios of the other measures"),
            Figures("Runs", [] if blocks is None else [blocks], []),
        ]
        return [each for each in figures if each.shown]
    times = latency(point)
    single = [chart(point) for chart in (paired, windows)]
    # Over a sweep, the charts of all its points have them.
    others = [] if point.label else bars(point)[1]
    figures = [
        Figures("Ratios", ratios[:1], ratios[1:], "Ratios of the other measures"),
        Figures("Latency", times[:1], times[1:], "Latency client by client"),
        Figures("Runs", [chart for chart in single if chart is not None], []),
        Figures("Other measures", others, []),
    ]
    return [each for each in figures if each.shown]


@_unchecked
def of_sweep(lab: LabResult) -> Figures | None:
    """The figures over all points; None without a sweep."""
    if lab.sweep is not None and lab.sweep.key == NETWORK:
        mapped = heat(lab)
        return Figures("Networks", mapped, []) if mapped else None
    found = sweeps(lab)
    if not found:
        return None
    each = [chart for point in view.points(lab) if (chart := at_point(point)) is not None]
    if len(view.everyone(lab)) > palette.MANY:
        return Figures("Sweep", each, found, "Client by client")
    return Figures("Sweep", [found[0], *each], found[1:], "The other measures of the sweep")


@_unchecked
def profiles(lab: LabResult) -> Figures | None:
    """Flame graphs; None where nothing was profiled."""
    found = flames(lab)
    return Figures("Profiles", found, []) if found else None


def charts(lab: LabResult) -> list[Chart]:
    """Every figure of a result."""
    beside = published(lab)
    points = [group for point in view.points(lab) for group in (first(point), *of_point(point))]
    groups = [each for each in (of_sweep(lab), *points, profiles(lab)) if each is not None]
    return ([] if beside is None else [beside]) + [
        chart for group in groups for chart in (*group.shown, *group.folded)
    ]

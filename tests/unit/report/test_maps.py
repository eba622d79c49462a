"""Maps of ratios over networks: terminal, page of an experiment, chart."""

from __future__ import annotations

import functools
import io
import math
import re
from collections.abc import Callable
from dataclasses import replace as replace_observed
from itertools import pairwise
from typing import Any

import altair as alt
import pytest
from msgspec.structs import replace
from rich.console import Console

from synthetic import labs
from trilane.lab.analysis import headline
from trilane.lab.experiment.form import Answer
from trilane.lab.model.arm import Arm
from trilane.lab.model.comparison import Announced
from trilane.lab.model.lab import LabResult, SweepKey, Swept
from trilane.report import charts, drawing, html, maps, pages, tables, terminal
from trilane.report.charts.heat import legend_ticks

# Seconds of HTTP/2 and HTTP/3 where HTTP/1.1 takes one.
NETWORKS = {
    "rtt=1ms,loss=0%": (1.0, 1.0),
    "rtt=1ms,loss=3%": (2.0, 1.5),
    "rtt=300ms,loss=0%": (0.5, 0.4),
    "rtt=300ms,loss=3%": (3.0, 0.7),
}


@functools.cache
def networks(*left_out: str) -> LabResult:
    """A sweep over networks of three arms."""
    arms = [Arm(name=name, title=name.upper(), version=name) for name in ("h1", "h2", "h3")]
    values = [value for value in NETWORKS if value not in left_out]
    points = [
        (
            value,
            labs.observed(arms, {"h1": 1.0, "h2": NETWORKS[value][0], "h3": NETWORKS[value][1]}),
        )
        for value in values
    ]
    return replace(labs.lab(*points), sweep=Swept(key="network", unit="", values=[*values]))


def ended_at_once(key: SweepKey | None) -> LabResult:
    """Of a form that was interrupted before its first block: no run at any point."""
    arms = [Arm(name=name, title=name.upper(), version=name) for name in ("h1", "h2", "h3")]
    swept_over: dict[str, list[str | float]] = {"network": [*NETWORKS], "count": [10, 1000]}
    values = swept_over.get(key or "", [])
    nothing = replace_observed(
        labs.observed(arms, dict.fromkeys(("h1", "h2", "h3"), 1.0)), samples=[], interrupted=True
    )
    points: list[str | float | None] = [*values] or [None]
    made = labs.lab(*((value, nothing) for value in points))
    swept = Swept(key=key, unit="", values=values) if key else None
    return replace(made, sweep=swept, interrupted=True)


def printed(lab: LabResult) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(terminal.render(lab, width=100))
    return out.getvalue()


def test_two_settings_that_vary_make_a_map_of_each_pair() -> None:
    found = maps.maps(networks())
    assert [each.key for each in found] == ["h2-h1", "h3-h1"]
    two = found[0]
    assert (two.down, two.across) == ("rtt", "loss")
    assert (two.rows, two.columns) == (["1ms", "300ms"], ["0%", "3%"])
    cell = two.cells["300ms", "3%"]
    assert cell is not None
    assert None not in {cell.ratio, cell.low, cell.high}
    assert cell.ratio == pytest.approx(3, rel=0.1)
    assert (cell.low or 0) < (cell.ratio or 0) < (cell.high or 0)
    assert two.title.endswith("H2 ÷ H1")


def test_a_setting_that_varies_alone_makes_one_row() -> None:
    (two, _) = maps.maps(networks("rtt=300ms,loss=0%", "rtt=300ms,loss=3%"))
    assert (two.down, two.across, two.rows, two.columns) == ("", "loss", [""], ["0%", "3%"])
    assert maps.lines(two)[0][0] == "ratio"


def test_a_network_that_is_missing_is_an_empty_cell() -> None:
    (two, _) = maps.maps(networks("rtt=1ms,loss=3%"))
    assert ("1ms", "3%") not in two.cells
    assert maps.lines(two)[0][0] == "1ms"
    assert maps.lines(two)[0][2] == "–"


def test_pairs_that_were_announced_come_instead_of_the_baseline() -> None:
    lab = networks()
    asked = [
        replace(
            point,
            comparison=replace(
                point.comparison,
                announced=[
                    Announced(name="arm against arm", pairs=[point.comparison.ratios[0].turned()])
                ],
            ),
        )
        for point in lab.points
    ]
    (pair,) = maps.maps(replace(lab, points=asked))
    assert pair.title.endswith("H1 ÷ H2")


@pytest.mark.parametrize("key", [None, "network", "count"])
def test_what_was_ended_before_its_first_block_is_shown(key: SweepKey | None) -> None:
    lab = ended_at_once(key)
    assert maps.maps(lab) == []
    assert "no block was completed" in printed(lab)
    assert "<html" in html.render(lab)
    assert tables.markdown(lab)
    assert tables.csv_text(lab)
    assert pages.measured(lab)


def test_networks_without_a_block_are_not_among_those_compared() -> None:
    (whole, *_) = [point.comparison for point in networks().points]
    (nothing, *_) = [point.comparison for point in ended_at_once("network").points]
    asked = Answer(compare=("h2", "h1"))
    none = "No answer: no block was completed."
    assert headline.over_points(asked, "h1", [nothing], "networks") == none
    assert " of 1 networks" in headline.over_points(asked, "h1", [whole, nothing], "networks")


@pytest.mark.parametrize("make", [labs.strategies, functools.partial(labs.bookstore, 6)])
def test_there_is_no_map_of_anything_else(make: Callable[[], LabResult]) -> None:
    assert maps.maps(make()) == []


def test_the_terminal_and_the_page_show_the_maps() -> None:
    shown = printed(networks())
    assert "H2 ÷ H1" in shown
    assert "rtt ↓ loss →" in shown
    page = pages.measured(networks())
    assert "| rtt ↓ loss → | 0% | 3% |" in page
    assert "| 300ms | " in page
    assert page.startswith(f"**{tables.escaped(networks().verdict)}**")


def test_the_chart_is_of_vega_lite_with_named_axes_and_stands_in_the_report() -> None:
    made = {chart.name: chart for chart in charts.charts(networks())}
    assert {"map-h2-h1", "map-h3-h1"} <= set(made)
    spec = made["map-h2-h1"].spec
    alt.LayerChart.validate(spec)
    encoding = spec["layer"][0]["encoding"]
    assert encoding["x"]["title"] == "packets lost"
    assert encoding["y"]["title"] == "round-trip time"
    rows = spec["data"]["values"] if "data" in spec else spec["layer"][0]["data"]["values"]
    assert {(row["row"], row["column"]) for row in rows} == {
        ("1ms", "0%"),
        ("1ms", "3%"),
        ("300ms", "0%"),
        ("300ms", "3%"),
    }
    assert 'id="chart-map-h2-h1"' in html.render(networks())


@pytest.mark.usefixtures("drawn")
def test_a_cell_says_its_network_ratio_and_interval() -> None:
    map_of = {chart.name: chart for chart in charts.charts(networks())}
    said = r"<title>rtt 1ms, loss 3%: 2\.\d+× \(2\.\d+–2\.\d+\), higher</title>"
    assert re.search(said, drawing.svg(map_of["map-h2-h1"]))


def scale_of(chart: charts.Chart) -> dict[str, Any]:
    """The colours of a map, and the ticks of its legend."""
    colour: dict[str, Any] = chart.spec["layer"][0]["encoding"]["color"]["condition"]
    return colour


def test_all_maps_of_a_page_have_one_scale_of_colours() -> None:
    two, three = (
        scale_of(chart) for chart in charts.charts(networks()) if chart.name.startswith("map-")
    )
    # HTTP/2 takes three times as long on one network, HTTP/3 at most 2.5 times.
    assert two["scale"]["domain"] == three["scale"]["domain"]
    assert two["legend"]["values"] == three["legend"]["values"]
    assert two["scale"]["domain"][2] > 2.9


@pytest.mark.parametrize("most", [1.25, 1.4, 1.6, 2, 3, 5, 10, 40, 1000])
def test_ticks_of_a_legend_have_room(most: float) -> None:
    length = 200
    ticks = legend_ticks(most, length)
    assert 1 in ticks
    assert len(ticks) >= 3
    places = [length * (math.log(tick) / math.log(most) + 1) / 2 for tick in ticks]
    widths = [7 * len(f"{tick:,g}") for tick in ticks]
    for (left, right), (one, other) in zip(pairwise(places), pairwise(widths), strict=True):
        assert right - left >= (one + other) / 2


def test_the_headline_counts_the_networks_on_which_an_arm_was_better() -> None:
    points = [point.comparison for point in networks("rtt=1ms,loss=0%").points]
    label = points[0].measures[0].label

    def said(asked: Answer | None) -> str:
        return headline.over_points(asked, "h1", points, "networks")

    assert said(Answer(compare=("h2", "h1"))) == (
        f"H2 beats H1 in {label} on 1 of 3 networks, loses on 2."
    )
    assert said(Answer(compare=("h3", "h1"))) == (
        f"H3 beats H1 in {label} on 2 of 3 networks, loses on 1."
    )
    # Of several arms without a question of its own: who leads where.
    assert said(None).endswith(" of 3 networks, H1 on 1.")


def test_the_headline_over_networks_is_that_of_the_map() -> None:
    """What was announced may be decided where all arms beside the baseline are not."""
    (point, *_) = networks().points
    made = point.comparison
    row = next(row for row in made.ratios if row.arm == "h2")
    made = replace(
        made,
        ratios=[replace(each, finding="undecided") for each in made.ratios],
        announced=[
            Announced(name="arm against arm", pairs=[replace(row, finding=made.measures[0].better)])
        ],
    )
    said = headline.over_points(Answer(compare=("h2", "h1")), "h1", [made], "networks")
    assert said.startswith(f"H2 beats H1 in {made.measures[0].label} on 1 of 1 networks")

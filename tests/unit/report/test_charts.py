"""The charts: named axes with units, colours that can be told apart, nothing without data."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest
from jsonschema import ValidationError
from msgspec import convert

from synthetic import calls, labs, races, searches
from synthetic.records import altered, with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.lab import LabResult, Swept
from trilane.lab.model.measures import CAPACITY, RATE
from trilane.lab.model.sample import Sample
from trilane.lab.model.search import Search
from trilane.report import charts, palette, view
from trilane.report.charts.base import plain, wrapped

UNITS = (
    "×",
    "(ms)",
    "(µs)",
    "(s)",
    "(B)",
    "(kB)",
    "(MB)",
    "(%)",
    "/s",
    "per request",
    "per second",
)
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
_DEUTERANOPIA = [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
_PROTANOPIA = [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]


def race() -> LabResult:
    made = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True)
    return LabResult.of_race(paired.compare(made))


def bookstore() -> LabResult:
    return labs.bookstore(12)


def capacity() -> LabResult:
    """A race of searches for the highest rate that holds."""

    def found(sample: Sample) -> dict[str, object]:
        low = {"h1": 10_000.0, "h2": 15_000.0, "h3": 5000.0}[sample.arm] * (1 + sample.block / 100)
        return {"capacity": convert(searches.search(low=low, high=low * 1.04), Search).capacity}

    observed = with_runs(races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, blocks=6), found)
    made = replace(observed, measures=(CAPACITY, RATE), rank=CAPACITY)
    return LabResult.of_race(paired.compare(made))


@functools.cache
def drawn(name: str) -> dict[str, charts.Chart]:
    """The charts of a made-up result by name."""
    makers: dict[str, Callable[[], LabResult]] = {
        "race": race,
        "bookstore": bookstore,
        "strategies": labs.strategies,
        "versions": labs.versions,
        "capacity": capacity,
    }
    made = charts.charts(makers[name]())
    named = {chart.name: chart for chart in made}
    assert len(named) == len(made)
    return named


def channels(spec: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every x and y channel of a specification, layers included."""
    if not isinstance(spec, dict):
        return []
    found = [
        (name, channel) for name, channel in spec.get("encoding", {}).items() if name in ("x", "y")
    ]
    return found + [pair for layer in spec.get("layer", []) for pair in channels(layer)]


def rows(chart: charts.Chart) -> list[dict[str, Any]]:
    """All rows of data of a chart."""

    def inner(spec: dict[str, Any]) -> list[dict[str, Any]]:
        own: list[dict[str, Any]] = spec.get("data", {}).get("values", [])
        return own + [row for layer in spec.get("layer", []) for row in inner(layer)]

    return inner(chart.spec)


def legends(spec: Any) -> list[dict[str, Any]]:
    if not isinstance(spec, dict):
        return []
    found = [
        channel
        for channel in spec.get("encoding", {}).values()
        if isinstance(channel, dict) and channel.get("legend")
    ]
    return found + [one for layer in spec.get("layer", []) for one in legends(layer)]


@pytest.mark.parametrize("name", ["race", "bookstore", "strategies", "versions"])
def test_every_chart_follows_the_schema_of_vega_lite(name: str) -> None:
    for chart in drawn(name).values():
        # Those of the second and third point of a sweep are made as those of the first.
        if not chart.name.startswith(("at2-", "at3-")):
            check(chart.spec)


def test_a_chart_that_does_not_follow_the_schema_is_seen() -> None:
    spoilt = copy.deepcopy(drawn("race")["ratios"].spec)
    spoilt["layer"][0]["mark"] = {"type": "squiggle"}
    with pytest.raises(ValidationError, match="squiggle"):
        check(spoilt)


def check(spec: dict[str, Any]) -> None:
    (alt.LayerChart if "layer" in spec else alt.Chart).validate(spec)


@pytest.mark.parametrize("name", ["race", "bookstore", "strategies", "versions"])
def test_every_chart_has_a_unit_and_no_title_at_its_side(name: str) -> None:
    for chart in drawn(name).values():
        axes = [channel.get("axis") or {} for _, channel in channels(chart.spec)]
        said = [
            chart.title,
            *(channel["title"] for _, channel in channels(chart.spec) if channel.get("title")),
            *(axis["labelExpr"] for axis in axes if "×" in axis.get("labelExpr", "")),
        ]
        assert any(unit in each for each in said for unit in UNITS), chart.name
        # The heading says what goes upwards: a title at its side would take the room of the plot.
        upwards = [channel for name, channel in channels(chart.spec) if name == "y"]
        assert not any(channel.get("title") for channel in upwards), chart.name


def test_names_are_unique_and_fit_files_and_pages() -> None:
    for made in ("race", "bookstore", "strategies"):
        assert all(name == plain(name) for name in drawn(made))


def test_a_race_has_its_charts() -> None:
    first = ["requests_per_s", "p50", "p99", "server_cpu_us_per_request"]
    bars = [f"bars-{name}" for name in (*first, "client_cpu_us_per_request")]
    others = ["ratios", "latency", "paired", "windows", "bars-bytes_per_request"]
    assert list(drawn("race")) == [*bars, *others]


@pytest.mark.parametrize(("make", "most"), [(race, 5), (bookstore, 3)])
def test_the_first_bars_are_few_and_led_by_what_decides(
    make: Callable[[], LabResult], most: int
) -> None:
    """Of many arms each chart is tall, and a first screen has room for fewer."""
    (point,) = view.points(make())
    first = charts.first(point)
    assert first is not None
    assert len(first.shown) == most
    assert all(chart.small for chart in first.shown)
    assert first.shown[0].name == f"bars-{point.comparison.ranking.measure}"


def test_of_searches_the_rate_that_holds_alone_is_drawn_as_bars() -> None:
    """Their runs are at rates of their own: what else they measured does not compare."""
    names = list(drawn("capacity"))
    assert [name for name in names if name.startswith("bars-")] == ["bars-capacity_per_s"]
    assert "load" in names


def test_of_very_many_arms_a_sweep_shows_the_best_of_each_point() -> None:
    """All of them stood above the fold, 2,000 pixels high."""
    result = calls.result(4)
    made = {chart.name: chart for chart in charts.charts(result)}
    few = made["at2-deciding"]
    assert len(few.spec["layer"][0]["encoding"]["y"]["sort"]) == 12
    arms = result.points[1].comparison.arms
    assert few.note == f"the best 12 of {len(arms)}, lower is better"


def test_every_bar_ends_in_its_number() -> None:
    for chart in (each for name in ("race", "bookstore") for each in drawn(name).values()):
        if chart.name.startswith("bars-"):
            assert all(row["label"] not in ("", "–") for row in rows(chart)), chart.name
            (text,) = [layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "text"]
            assert text["encoding"]["text"]["field"] == "label"


@pytest.mark.parametrize("name", ["strategies", "versions"])
def test_intervals_of_a_sweep_have_room_between_the_axis_and_the_top(name: str) -> None:
    """An interval that touches the axis looks as if it went on below it."""
    for chart in drawn(name).values():
        if not chart.name.startswith("sweep-"):
            continue
        ends = [row[end] for row in rows(chart) for end in ("low", "high") if row.get(end)]
        (scale,) = [
            channel["scale"]
            for which, channel in channels(chart.spec)
            if which == "y" and channel["field"] == "median" and "scale" in channel
        ][:1]
        low, high = scale["domain"]
        assert high > max(ends), chart.name
        assert low < min(ends), chart.name
        # Logarithms of negative numbers there are none, and on a line times begin at nothing.
        assert low > 0 if scale["type"] == "log" else low == 0, chart.name


def test_charts_without_data_are_left_out() -> None:
    nothing: dict[str, object] = {"windows": [], "latency.service": None}
    alone = with_runs(races.race({"h1": 1.0}, blocks=1), lambda _: nothing)
    names = [chart.name for chart in charts.charts(LabResult.of_race(paired.compare(alone)))]
    assert names
    assert all(name.startswith("bars-") for name in names)
    assert charts.charts(labs.empty()) == []


def test_the_measure_that_decides_comes_first() -> None:
    named = drawn("bookstore")
    assert named["ratios"].title.startswith("Elapsed time")
    assert "ratios-requests_per_s" in named
    # The table of numbers has it.
    assert "ratios-user_s" not in named
    order = list(named)
    assert order.index("bars-elapsed_s") < order.index("bars-requests_per_s")


def test_no_legend_names_more_arms_than_can_be_told_apart() -> None:
    for chart in drawn("bookstore").values():
        for channel in legends(chart.spec):
            assert len(channel["scale"]["domain"]) <= palette.MANY, chart.name


def test_many_arms_are_coloured_by_version_and_drawn_client_by_client() -> None:
    made = drawn("bookstore")
    assert {row["hue"] for row in rows(made["bars-elapsed_s"])} == {"HTTP/1.1", "HTTP/2", "HTTP/3"}
    assert {row["title"].split(",")[0] for row in rows(made["latency-httpx-1"])} == {"httpx"}


def test_an_arm_keeps_its_colour_in_the_whole_report() -> None:
    seen: dict[str, set[str]] = {}
    for chart in drawn("strategies").values():
        for layer in chart.spec.get("layer", []):
            scale = layer.get("encoding", {}).get("color", {}).get("scale")
            if scale:
                for arm, colour in zip(scale["domain"], scale["range"], strict=True):
                    seen.setdefault(arm, set()).add(colour)
    assert len(seen) == 6
    assert all(len(colours) == 1 for colours in seen.values())


def test_versions_keep_their_colours_in_a_race() -> None:
    hues = palette.hues(view.everyone(race()))
    assert [hue.colour for hue in hues.values()] == [
        palette.VERSIONS[version] for version in ("h1", "h2", "h3")
    ]


def test_an_invalid_arm_is_marked_in_every_chart_of_arms() -> None:
    broken = bookstore().points[0].comparison.arms[-1].title
    for chart in drawn("bookstore").values():
        for row in rows(chart):
            if row.get("title") == broken:
                assert row["arm"].endswith("✗ invalid"), chart.name


def test_a_sweep_draws_medians_intervals_and_the_crossing() -> None:
    made = drawn("strategies")
    sweep = made["sweep-elapsed_s"]
    assert {row["value"] for row in rows(sweep) if "median" in row} == {100, 1000, 30000}
    crossing = next(row for row in rows(sweep) if "from" in row)
    assert (crossing["from"], crossing["value"], crossing["to"]) == (4800, 6200, 8900)
    assert [made[f"at{n}-deciding"].title for n in (1, 2, 3)] == [
        "Elapsed time (s) at 100 requests",
        "Elapsed time (s) at 1,000 requests",
        "Elapsed time (s) at 30,000 requests",
    ]


def test_delays_are_swept_in_milliseconds() -> None:
    delays = [0.0, 0.01, 0.1]
    made = altered(
        labs.strategies(),
        {
            "sweep": Swept(key="rtt", unit="s", values=[*delays]),
            "crossings": [],
            **{f"points.{place}.value": value for place, value in enumerate(delays)},
        },
    )
    found = charts.of_sweep(made)
    assert found is not None
    sweep = next(chart for chart in found.shown if chart.name == "sweep-elapsed_s")
    assert {row["value"] for row in rows(sweep)} == {0.0, 10.0, 100.0}
    assert any(
        channel.get("title") == "round-trip time (ms)" for _, channel in channels(sweep.spec)
    )


def test_the_runs_of_a_block_stand_above_each_other() -> None:
    """Lines from arm to arm over all blocks were a tangle."""
    chart = drawn("race")["paired"]
    join, points = chart.spec["layer"]
    assert points["encoding"]["x"]["field"] == join["encoding"]["x"]["field"] == "block"
    of_block: dict[int, list[float]] = {}
    for row in points["data"]["values"]:
        of_block.setdefault(row["block"], []).append(row["value"])
    assert list(of_block) == [1, 2, 3, 4, 5, 6, 7]
    for row in join["data"]["values"]:
        assert len(of_block[row["block"]]) == 3
        assert (row["low"], row["high"]) == (
            min(of_block[row["block"]]),
            max(of_block[row["block"]]),
        )


def test_paired_blocks_join_the_baseline_s_two_runs() -> None:
    made = drawn("bookstore")
    points = rows(made["paired"])
    per_arm = {
        title: len(list(group))
        for title, group in itertools.groupby(sorted(row["title"] for row in points))
    }
    assert set(per_arm.values()) == {7}


def test_clients_without_histograms_are_points() -> None:
    made = drawn("bookstore")
    assert "percentiles only" in made["latency-pycurl-1"].note
    assert not any(row["exact"] for row in rows(made["latency-pycurl-1"]))


def test_an_arm_that_tells_no_latency_is_left_out_among_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As h2load, which keeps no log in `load-generators`: the report ended in a stack trace."""
    # The package's name for it is that of the function.
    latency = importlib.import_module("trilane.report.charts.latency")
    made, bands_of = bookstore(), latency.bands_of
    arms = made.points[0].comparison.arms
    assert len(arms) > palette.MANY
    silent = view.runs(arms[0])
    monkeypatch.setattr(latency, "bands_of", lambda runs: [] if runs == silent else bands_of(runs))
    named = {chart.name: chart for chart in charts.charts(made)}
    shown = {row["title"] for row in rows(named["latency"])}
    assert shown == {arm.title for arm in arms[1:]}


def test_labels_are_wrapped_for_phones() -> None:
    label = wrapped("Requests with the adapter of hyper, HTTP/2, chunks of 100")
    assert max(len(line) for line in label.split("\n")) <= 27
    assert label.replace("\n", " ").startswith("Requests with the adapter")


def luminance(colour: str) -> float:
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def linear(colour: str) -> Any:
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab_of(rgb: Any) -> Any:
    """CIE L*a*b* of linear sRGB under D65."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(matrix) @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", sorted({*palette.ARMS, *palette.VERSIONS.values()}))
def test_colours_stand_out_on_white_and_on_near_black(colour: str) -> None:
    assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / (luminance("#1c2026") + 0.05) >= 3


@pytest.mark.parametrize("sight", [_DEUTERANOPIA, _PROTANOPIA], ids=["deutan", "protan"])
def test_neighbouring_colours_differ_for_colour_blind_readers(sight: list[list[float]]) -> None:
    seen = [lab_of(np.array(sight) @ linear(colour)) for colour in palette.ARMS]
    # Shapes tell the rest: among the first four every pair must differ by colour alone.
    for first, second in itertools.combinations(seen[:4], 2):
        assert float(np.linalg.norm(first - second)) > 15

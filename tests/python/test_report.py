from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

import runs
import synthetic
from trilane.lab import comparison
from trilane.lab.arms import arms_for
from trilane.report import charts, distribution, html, terminal, text

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}
EVIL = "<script>alert('&\"')</script>"


def printed(made: dict[str, Any], width: int = 80) -> str:
    stream = io.StringIO()
    terminal.show(made, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.fixture(scope="module")
def three() -> dict[str, Any]:
    return comparison.compare(synthetic.race(THREE, histogram=True))


def evil() -> dict[str, Any]:
    race = synthetic.race(THREE, histogram=True)
    for sample in race.samples:
        assert sample.run is not None
        sample.run["target"]["server"] = EVIL
        sample.run["validity"] = {"verdict": "suspect", "reasons": [EVIL], "bound": "client"}
    return comparison.compare(race)


def test_the_terminal_shows_the_verdict_first(three: dict[str, Any]) -> None:
    lines = printed(three, 200).splitlines()
    assert lines[0] == three["verdict"]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_measure_stands_on_the_terminal_with_its_unit(
    three: dict[str, Any], width: int
) -> None:
    shown = printed(three, width)
    for label in ("requests/s", "p50 latency", "p99 latency", "client CPU/req", "server CPU/req"):
        assert label in shown
    assert re.search(r"client CPU/req +1\d\.\d µs", shown)
    assert re.search(r"bytes/req +\d+ B", shown)
    assert "▲ 1.5" in shown
    assert "noise" in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "…" not in shown


def test_the_terminal_needs_no_markup_from_servers() -> None:
    race = synthetic.race(THREE, absent=[(arms_for("https")[2], "[bold]no[/bold]")])
    assert "[bold]no[/bold]" in printed(comparison.compare(race))


def test_an_absent_arm_is_shown() -> None:
    race = synthetic.race(
        {"h1": 1.0, "h2": 1.2}, absent=[(arms_for("https")[2], "no answer over UDP")]
    )
    assert "HTTP/3 not raced: no answer over UDP" in printed(comparison.compare(race), 120)


def test_one_arm_alone_prints_no_ratios() -> None:
    shown = printed(comparison.compare(synthetic.race({"h3": 1.0})))
    assert "noise" not in shown
    assert "requests/s" in shown


def test_strings_from_servers_are_escaped() -> None:
    page = html.render(evil())
    assert EVIL not in page
    assert "&lt;script&gt;alert(" in page


def test_the_page_loads_nothing(three: dict[str, Any]) -> None:
    page = html.render(three)
    assert "default-src 'none'" in page
    outside = re.sub(r'<script type="module">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", outside)


def test_the_page_holds_verdict_ledger_and_command(three: dict[str, Any]) -> None:
    page = html.render(three)
    assert "HTTP/2 won: 1.5" in page
    assert "trilane race --seed 1" in page
    assert 'class="differs"><th scope="row">ALPN' in page
    for chart in ("ratios", "latency", "windows", "cpu", "bytes"):
        assert f'id="chart-{chart}"' in page


def test_a_page_of_one_arm_and_no_block_is_still_a_page() -> None:
    race = synthetic.race({"h1": 1.0}, blocks=1, histogram=True)
    assert "<h1>HTTP/1.1 reached" in html.render(comparison.compare(race))
    empty = synthetic.race(THREE, samples=[])
    assert "No verdict" in html.render(comparison.compare(empty))


def channels(spec: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every x and y channel of a specification, layers included."""
    if not isinstance(spec, dict):
        return []
    found = [
        (name, channel) for name, channel in spec.get("encoding", {}).items() if name in ("x", "y")
    ]
    return found + [pair for layer in spec.get("layer", []) for pair in channels(layer)]


def test_every_axis_has_a_title_with_its_unit(three: dict[str, Any]) -> None:
    made = charts.charts(three)
    assert [chart.name for chart in made] == ["ratios", "latency", "windows", "cpu", "bytes"]
    for chart in made:
        titled = {
            name: channel["title"] for name, channel in channels(chart.spec) if channel.get("title")
        }
        assert titled.keys() == {"x", "y"}, chart.name
        assert any(
            unit in title
            for title in titled.values()
            for unit in ("(×)", "(ms)", "(µs)", "(B)", "(s)", "/s")
        ), chart.name


def test_charts_without_data_are_left_out() -> None:
    race = synthetic.race({"h1": 1.0}, blocks=1)
    for sample in race.samples:
        assert sample.run is not None
        sample.run["windows"] = []
        sample.run["latency"]["service"]["hdr"] = None
    names = [chart.name for chart in charts.charts(comparison.compare(race))]
    assert names == ["cpu", "bytes"]


def test_quantiles_stop_where_samples_run_out() -> None:
    bands = distribution.quantile_bands([runs.run("h1", p50=0.001, histogram=True)])
    assert max(band.q for band in bands) <= 1 - 10 / 2_000 + 1e-9
    middle = min(bands, key=lambda band: abs(band.q - 0.5))
    assert middle.median == pytest.approx(0.001, rel=0.05)


def test_bands_hold_the_lowest_and_highest_run() -> None:
    three = [runs.run("h1", p50=p50, histogram=True) for p50 in (0.001, 0.002, 0.004)]
    for band in distribution.quantile_bands(three):
        assert band.low <= band.median <= band.high
        assert band.high / band.low > 2


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.00128, "s", "1.28 ms"),
        (0.000085, "s", "85.0 µs"),
        (1.5, "s", "1.50 s"),
        (14.02, "us", "14.0 µs"),
        (50347.3, "1/s", "50,347 /s"),
        (None, "s", "–"),
    ],
)
def test_quantities(value: float | None, unit: str, shown: str) -> None:
    assert text.quantity(value, unit) == shown


def test_durations_are_written_the_way_flags_take_them() -> None:
    assert [text.duration(s) for s in (2.0, 0.5, 60.0, 90.0)] == ["2s", "500ms", "1m", "90s"]

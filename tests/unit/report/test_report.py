"""What a race says: on the terminal, as a page; numbers and distributions behind it."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from synthetic import races, records
from synthetic.records import altered, validity, with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.answer import Answer
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.report import distribution, formatting, html, terminal

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}
EVIL = "<script>alert('&\"')</script>"
DOUBTED = validity("the machine was busy")


def printed(made: Comparison, width: int = 80) -> str:
    stream = io.StringIO()
    terminal.show(LabResult.of_race(made), Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.fixture(scope="module")
def three() -> Comparison:
    return paired.compare(races.race(THREE, histogram=True))


def evil() -> Comparison:
    changes = {
        "target.server": EVIL,
        "validity": validity(EVIL),
    }
    return paired.compare(with_runs(races.race(THREE, histogram=True), lambda _: changes))


def test_the_terminal_shows_the_answer_first(three: Comparison) -> None:
    lines = printed(three, 200).splitlines()
    assert lines[0] == f"✓ {three.said.headline}"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_measure_stands_on_the_terminal_with_its_unit(three: Comparison, width: int) -> None:
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
    race = races.race(THREE, absent=[(races.arm("h3"), "[bold]no[/bold]")])
    assert "[bold]no[/bold]" in printed(paired.compare(race))


def test_an_absent_arm_is_shown() -> None:
    race = races.race(
        {"h1": 1.0, "h2": 1.2},
        histogram=True,
        absent=[(races.arm("h3"), "no answer over UDP")],
    )
    made = paired.compare(race)
    assert "HTTP/3 not raced: no answer over UDP" in printed(made, 120)
    assert "no answer over UDP" in html.render(LabResult.of_race(made))


def test_one_arm_alone_prints_no_ratios() -> None:
    shown = printed(paired.compare(races.race({"h3": 1.0})))
    assert "noise" not in shown
    assert "requests/s" in shown


@pytest.mark.usefixtures("drawn")
def test_strings_from_servers_are_escaped() -> None:
    page = html.render(LabResult.of_race(evil()))
    assert EVIL not in page
    assert "&lt;script&gt;alert(" in page


@pytest.mark.usefixtures("drawn")
def test_the_page_loads_nothing(three: Comparison) -> None:
    page = html.render(LabResult.of_race(three))
    assert "default-src 'none'" in page
    assert "script" not in page
    assert not re.search(r"""(src|href)\s*=\s*["']?[^"'#]|@import|url\([^#]""", page)


def test_a_page_answers_first(three: Comparison) -> None:
    """Headline, bars with the deciding measure first, what speaks against it, then all the rest."""
    doubted = Answer.of_sentence(three.verdict, DOUBTED)
    lab = LabResult.of_race(altered(three, {"answer": doubted, "validity": DOUBTED}))
    page = html.render(lab)
    assert f"<title>{three.verdict}</title>" in page
    order = [
        '<b class="badge suspect">suspect</b>',
        f"<h1>{three.verdict}</h1>",
        'id="chart-bars-requests_per_s"',
        'id="chart-bars-p99"',
        "<li>the machine was busy</li>",
        "<nav",
        'id="chart-ratios"',
    ]
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    assert page.count("the machine was busy") == 1


@pytest.mark.usefixtures("drawn")
def test_a_page_is_light(three: Comparison) -> None:
    assert len(html.render(LabResult.of_race(three)).encode()) < 150_000


def test_the_page_holds_verdict_ledger_and_command(three: Comparison) -> None:
    page = html.render(LabResult.of_race(three))
    assert "HTTP/2 is fastest: 1.5" in page
    assert "trilane race --seed 1" in page
    assert 'class="differs"><th scope="row">ALPN' in page
    for chart in (
        "ratios",
        "latency",
        "paired",
        "windows",
        "bars-requests_per_s",
        "bars-bytes_per_request",
    ):
        assert f'id="chart-{chart}"' in page


def test_a_page_of_one_arm_and_no_block_is_still_a_page() -> None:
    race = races.race({"h1": 1.0}, blocks=1, histogram=True)
    assert "HTTP/1.1 reached" in html.render(LabResult.of_race(paired.compare(race)))
    empty = races.race(THREE, samples=[])
    assert "No answer" in html.render(LabResult.of_race(paired.compare(empty)))


def test_quantiles_stop_where_samples_run_out() -> None:
    bands = distribution.quantile_bands([records.run("h1", p50=0.001, histogram=True)])
    assert max(band.q for band in bands) <= 1 - 10 / 2_000 + 1e-9
    middle = min(bands, key=lambda band: abs(band.q - 0.5))
    assert middle.median == pytest.approx(0.001, rel=0.05)


def test_quantiles_are_those_of_the_histogram_itself() -> None:
    run = records.run("h1", p50=0.001, histogram=True)
    itself = distribution.decode(run)
    assert itself is not None
    for band in distribution.quantile_bands([run]):
        assert band.median == itself.get_value_at_percentile(100 * band.q) * 1e-9


def test_bands_hold_the_lowest_and_highest_run() -> None:
    three = [records.run("h1", p50=p50, histogram=True) for p50 in (0.001, 0.002, 0.004)]
    for band in distribution.quantile_bands(three):
        assert band.low <= band.median <= band.high
        assert band.high / band.low > 2


def test_a_client_that_reports_quantiles_only_gives_these() -> None:
    run = altered(records.run("h1", p50=0.001), {"latency.service.hdr": None})
    bands = distribution.bands_of([run])
    assert [band.q for band in bands] == [0.5, 0.75, 0.9, 0.95, 0.99, 0.999]
    assert not any(band.exact for band in bands)
    run = altered(run, {"latency.service": None})
    assert distribution.bands_of([run]) == []


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.00128, "s", "1.28 ms"),
        (0.000085, "s", "85.0 µs"),
        (1.5, "s", "1.50 s"),
        (14.02, "us", "14.0 µs"),
        (50347.3, "1/s", "50,347 /s"),
        (48e6, "B", "48.0 MB"),
        (1432, "B", "1,432 B"),
        (14_320, "B", "14.3 kB"),
        (71.6, "%", "71.6 %"),
        (3.5, "1", "3.50"),
        (9.996, "1", "10.0"),
        (99.96, "%", "100 %"),
        (0, "s", "0 s"),
        (None, "s", "–"),
    ],
)
def test_quantities(value: float | None, unit: str, shown: str) -> None:
    assert formatting.quantity(value, unit) == shown


def test_a_column_has_one_scale_and_no_five_digits() -> None:
    assert formatting.scale([0.302, 14.0], "s") == (1.0, "s")
    assert formatting.scale([0.302, 4.0], "s") == (1e-3, "ms")
    assert formatting.scale([None, 0.002], "s") == (1e-3, "ms")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(7.1234, "7.12"), (0.604, "0.60"), (0.016, "0.016"), (0.0004, "0.0004"), (1234.5, "1,234")],
)
def test_no_ratio_reads_as_zero(value: float, shown: str) -> None:
    assert formatting.times(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0421, "0.042"), (0.0004, "< 0.001"), (1.0, "1.000")]
)
def test_no_p_value_reads_as_zero(value: float, shown: str) -> None:
    assert formatting.p_value(value) == shown


@pytest.mark.parametrize(
    ("value", "key", "unit", "shown"),
    [
        (1000, "count", "requests", "1,000 requests"),
        (0.02, "rtt", "s", "20 ms"),
        (0, "rtt", "s", "0 ms"),
        (100_000, "body_bytes", "B", "100 kB"),
    ],
)
def test_values_of_a_sweep(value: float, key: str, unit: str, shown: str) -> None:
    assert formatting.swept(value, key, unit) == shown


def test_durations_are_written_the_way_flags_take_them() -> None:
    assert [formatting.duration(s) for s in (2.0, 0.5, 60.0, 90.0)] == ["2s", "500ms", "1m", "90s"]

"""Calls in reports: servers and formats down, versions across."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from synthetic import calls, labs
from synthetic.records import altered
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.report import grids, html, pages, tables, terminal, view
from trilane.report.cells import Cell

COLUMNS = ["h1 plain", "h2c", "h1", "h2", "h3"]


@pytest.fixture(scope="module")
def result() -> LabResult:
    return calls.result(4)


@pytest.fixture(scope="module")
def report(result: LabResult) -> str:
    return html.render(result)


def comparison(result: LabResult, at: float) -> Comparison:
    return next(p.comparison for p in result.points if p.value == at)


def test_the_result_passes_the_schema(result: LabResult, lab_schema: Draft202012Validator) -> None:
    kept = json.loads(msgspec.json.encode(result))
    problems = [f"{error.json_path}: {error.message}" for error in lab_schema.iter_errors(kept)]
    assert problems == []


def test_a_grid_has_every_arm_once(result: LabResult) -> None:
    judged = comparison(result, 8)
    made = grids.grids(judged)
    assert [grid.label for grid in made] == [
        "mean latency",
        "client CPU per request",
        "server CPU per request",
        "payload bytes per request",
    ]
    for grid in made:
        assert grid.columns == COLUMNS
        assert sum(cell is not None for line in grid.lines for cell in line.cells) == 53
    # Servers in the order of their first arm, their formats in that of the list.
    assert [(line.server, line.message) for line in made[0].lines] == [
        *(("embedded", name) for name in ("JSON", "protobuf", "gRPC")),
        *(("vanguard", name) for name in ("JSON", "protobuf", "gRPC")),
        *(("grpc-gateway", name) for name in ("JSON", "protobuf")),
        *(("connect-go", name) for name in ("JSON", "protobuf", "gRPC")),
        *(("grpc-go", name) for name in ("gRPC", "gRPC, codec")),
        ("grpc-go-http", "gRPC"),
    ]
    # gRPC has no HTTP/1.1; without TLS fewer points were asked for.
    (grpc,) = [line for line in made[0].lines if line.message == "gRPC, codec"]
    assert [cell is None for cell in grpc.cells] == [True, False, True, True, True]
    assert grids.grids(comparison(result, 1))[0].columns == ["h1 plain", "h2c"]


def test_a_cell_is_the_median_of_its_arm(result: LabResult) -> None:
    judged = comparison(result, 8)
    (grid,) = [each for each in grids.grids(judged) if each.label == "mean latency"]
    (arm,) = [arm for arm in judged.arms if arm.name == "vanguard-h1-plain-json"]
    (line,) = [n for n in grid.lines if (n.server, n.message) == ("vanguard", "JSON")]
    cell = line.cells[0]
    assert cell is not None
    assert cell.arm == arm.title
    assert grid.unit == "µs"
    median = arm.summary["mean_s"].median
    assert median is not None
    assert float(cell.value.replace(",", "")) == pytest.approx(1e6 * median, rel=0.01)


def test_the_text_of_a_cell_says_how_it_stands_to_the_baseline() -> None:
    baseline = Cell("a", "1.5", None, None, None, "plain", None)
    higher = Cell("a", "2.5", None, "1.60× (1.5–1.7)", "higher", "bad", None)
    assert [grids.cell_text(cell) for cell in (None, baseline, higher)] == ["", "1.5", "2.5 ▲"]


def test_what_are_no_calls_or_few_has_no_grid(result: LabResult) -> None:
    for point in labs.bookstore(12).points:
        assert grids.grids(point.comparison) == []
    few = comparison(result, 1)
    few = altered(few, {"arms": few.arms[: view.FEW]})
    assert grids.grids(few) == []
    mixed = altered(comparison(result, 1), {"arms.0.message": None})
    assert grids.grids(mixed) == []


def test_the_terminal_shows_grids_in_eighty_columns(result: LabResult) -> None:
    console = Console(width=80, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    with console.file:
        terminal.show(result, console, verbose=True)
        text = console.export_text()
    assert text.count("mean latency (µs)") == 2
    assert max(map(len, text.splitlines())) <= 80
    heads = [line.split() for line in text.splitlines() if line.rstrip().endswith("h3")]
    assert heads[0][-6:] == ["h1", "plain", "h2c", "h1", "h2", "h3"]


def test_pages_and_markdown_have_a_table_for_each_measure(result: LabResult) -> None:
    page = pages.measured(result)
    assert page.count("| server | format | h1 plain | h2c | h1 | h2 | h3 |") == 4
    assert page.count("<details><summary>All 53 arms</summary>") == 1
    assert "h1 plain and h2c are without TLS." in page
    for line in page.splitlines():
        if line.startswith("| vanguard | gRPC "):
            # No cell is lost where there is no arm.
            assert line.count("|") in {5, 8}
    assert "| server | format | h1 plain | h2c |" in tables.markdown(result)


def test_the_report_shows_grids_and_folds_the_list_of_arms(report: str) -> None:
    # Four measures and the pairs, at two points.
    assert report.count('<table class="numbers many grid">') == 10
    assert report.count("Every arm, with intervals and ratios") == 2
    assert "<caption>mean latency (µs)</caption>" in report
    assert '<h2 id="benchstat">' not in report


def test_pairs_are_compared_point_by_point(result: LabResult, report: str) -> None:
    at_one, at_eight = (
        next(q.pairs for q in comparison(result, at).announced if q.name == "arm against arm")
        for at in (1, 8)
    )
    pair = ("vanguard-h2c-json", "vanguard-h1-plain-json")
    (row,) = [r for r in at_one if (r.arm, r.to, r.measure) == (*pair, "mean_s")]
    # The made-up numbers say 1.1, with noise.
    assert row.low is not None
    assert row.ratio is not None
    assert row.high is not None
    assert row.low <= row.ratio <= row.high
    assert row.ratio == pytest.approx(1.1, abs=0.08)
    # TLS is compared only where both arms run.
    assert "embedded-h3-json" not in {r.arm for r in at_one}
    assert "embedded-h3-json" in {r.arm for r in at_eight}
    told = "vanguard, JSON, h2c ÷ vanguard, JSON, h1 plain"
    page = pages.measured(result)
    assert page.count(f"| {told} |") == 2
    assert report.count(told) >= 2
    assert told in tables.markdown(result)


def test_what_benchstat_said_is_in_the_report_and_on_the_terminal(result: LabResult) -> None:
    told = altered(
        result,
        {
            "points": result.points[:1],
            "benchstat": "        │ a │\nGRPC-2  41.2µ ± 3%\n<b>",
        },
    )
    page = html.render(told)
    assert '<h2 id="benchstat">' in page
    assert "GRPC-2  41.2µ ± 3%\n&lt;b&gt;" in page
    console = Console(width=100, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    with console.file:
        terminal.show(told, console, verbose=True)
        assert "GRPC-2  41.2µ ± 3%" in console.export_text()

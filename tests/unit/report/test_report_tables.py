"""A result as CSV, as Markdown and as picture files."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import msgspec
import pytest

from synthetic import labs, races
from synthetic.records import altered
from trilane.lab.analysis import paired
from trilane.lab.model.comparison import Finding
from trilane.lab.model.lab import ExpectedRatio, LabResult
from trilane.report import charts, images, labels, tables

PNG = b"\x89PNG\r\n\x1a\n"


def race() -> LabResult:
    made = races.race({"h1": 1.0, "h2": 1.5}, histogram=True)
    return LabResult.of_race(paired.compare(made))


def bookstore() -> LabResult:
    return labs.bookstore(12)


def records(made: LabResult) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.csv_text(made))))


def test_csv_has_a_row_per_arm_and_measure_with_its_unit() -> None:
    found = records(bookstore())
    assert len(found) == 12 * len(labs.MEASURES)
    assert {row["unit"] for row in found} == {"s", "%", "1/s", "us", "B"}
    row = next(r for r in found if r["arm"] == "httpx-h2-serial" and r["measure"] == "elapsed_s")
    assert float(row["ratio_low"]) <= float(row["ratio"]) <= float(row["ratio_high"])
    assert row["to"] == "requests-h1-serial"
    assert float(row["published_ratio"]) == pytest.approx(3.53 / 5.84)
    baseline = next(r for r in found if r["arm"] == "requests-h1-serial")
    assert baseline["ratio"] == ""


def test_csv_of_a_sweep_names_the_point() -> None:
    assert {row["point"] for row in records(labs.strategies())} == {
        "100.0",
        "1000.0",
        "30000.0",
    }


def test_csv_of_a_race_has_no_point() -> None:
    found = records(race())
    assert {row["arm"] for row in found} == {"h1", "h2"}
    assert {row["point"] for row in found} == {""}


def lines(text: str) -> list[list[str]]:
    """The cells of every table row of a Markdown text."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_markdown_tables_are_rectangular_and_carry_intervals() -> None:
    shown = tables.markdown(race())
    found = lines(shown)
    assert {len(row) for row in found} == {len(found[0])}
    assert re.fullmatch(r"1\.5\d× \(1\.\d\d–1\.\d\d\)", found[3][2])
    assert "requests/s" in found[0]
    assert "p50 latency (µs)" in found[0] or "p50 latency (ms)" in found[0]


def test_markdown_names_date_machine_blocks_and_command() -> None:
    shown = tables.markdown(bookstore())
    assert "2026-11-20, Test CPU @ 3 GHz, 2 CPUs, Linux 6.1, 7 blocks" in shown
    assert "`trilane lab run bookstore --form fair --seed 7`" in shown
    assert "| ratio | published | here (95 % interval) | finding |" in shown


@pytest.mark.parametrize(
    ("theirs", "finding", "low", "high", "said"),
    [
        (1.5, "higher", 1.2, 1.4, "above 1, below the published"),
        (1.1, "higher", 1.2, 1.4, "above 1, above the published"),
        (1.3, "higher", 1.2, 1.4, "above 1, as published"),
        (0.9, "higher", 1.2, 1.4, "above 1, above the published: the opposite sign"),
        (1.2, "lower", 0.7, 0.9, "below 1, below the published: the opposite sign"),
        (0.5, "no_difference", 0.99, 1.01, "no different from 1, above the published"),
        (2.0, "undecided", 0.5, 1.5, "undecided"),
    ],
)
def test_a_finding_is_about_1_and_about_the_published_ratio(
    theirs: float, finding: Finding, low: float, high: float, said: str
) -> None:
    made = bookstore()
    (row, *_) = (row for row in made.published if row.ours is not None)
    assert row.ours is not None
    ours = msgspec.structs.replace(row.ours, low=low, high=high, finding=finding)
    post = msgspec.structs.replace(row.published, ratio=theirs)
    row = msgspec.structs.replace(row, ours=ours, published=post)
    made = msgspec.structs.replace(made, published=[row])
    assert labels.published(made)[0].said == said


def test_markdown_of_a_sweep_has_a_table_per_point_and_the_crossings() -> None:
    shown = tables.markdown(labs.strategies())
    assert shown.count("| arm |") == 3
    assert "cross at 6,200 requests" in shown


def test_the_state_folder_is_no_part_of_the_command() -> None:
    made = altered(
        bookstore(), {"command": "trilane lab run bookstore --state /some/where --seed 7"}
    )
    assert "`trilane lab run bookstore --seed 7`" in tables.markdown(made)


def test_signs_of_markdown_in_names_are_escaped() -> None:
    evil = "a|b*c_d<script>`x`\nnew"
    shown = tables.markdown(labs.with_string(bookstore(), evil))
    assert "<script>" not in shown.replace("\\<script\\>", "")
    found = lines(shown)
    assert any("a\\|b\\*c\\_d" in cell for row in found for cell in row)
    arms = [row for row in found if "requests, HTTP/1.1, serial" in row[0]]
    assert {len(row) for row in arms if len(row) > 5} == {2 + len(labs.MEASURES)}


@pytest.mark.usefixtures("drawn")
def test_every_chart_is_written_as_png_and_svg(tmp_path: Path) -> None:
    written = images.write(charts.charts(race()), tmp_path / "charts")
    names = {path.name for path in written}
    assert {"ratios.png", "ratios.svg", "latency.png", "bars-p99.svg"} <= names
    for path in written:
        content = path.read_bytes()
        assert content.startswith(PNG) if path.suffix == ".png" else b"<svg" in content[:200]
    assert b"Ratio to HTTP/1.1" in (tmp_path / "charts" / "ratios.svg").read_bytes()


def test_the_version_of_our_engine_is_no_part_of_what_it_loads() -> None:
    """FINDINGS A1: arms of `trilane ab` are revisions of something else."""
    made = paired.compare(races.race({"h1": 1.0, "h2": 1.5}))
    told = {f"arms.{place}.library_version": "0.1.0" for place in range(len(made.arms))}
    ours = tables.markdown(LabResult.of_race(altered(made, told)))
    assert "| HTTP/2 |" in ours
    assert "| HTTP/2 0.1.0 |" not in ours
    theirs = tables.markdown(LabResult.of_race(altered(made, told | {"arms.1.client": "oha"})))
    assert "| HTTP/2 0.1.0 |" in theirs


def test_a_gate_of_a_race_stands_as_it_was_typed_in_an_experiment_as_it_is_kept() -> None:
    # `h2:rate<1.25`: that a rate may not fall is kept of the other arm, as what may not rise.
    typed = ExpectedRatio(
        measure="requests_per_s",
        arm="h1",
        to="h2",
        at=None,
        low=0.0,
        high=0.8,
        ratio=0.625,
        interval=(0.5, 0.64),
        met=True,
    )
    made = altered(race(), {"expect": [typed]})
    (gate,) = labels.gates(made)
    assert gate.label == "requests/s: HTTP/2 ÷ HTTP/1.1"
    assert (gate.range, gate.here) == ("≥ 1.25×", "1.60× (1.56–2.00)")
    (kept,) = labels.gates(altered(made, {"experiment.form": "fair"}))
    assert kept.label == "requests/s: HTTP/1.1 ÷ HTTP/2"
    assert (kept.range, kept.here) == ("≤ 0.80×", "0.62× (0.50–0.64)")

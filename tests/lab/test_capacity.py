"""Races for capacity by fakes of the load engine: each run is a search."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from lab.conftest import Said
from lab.test_race import Make, behave, raced
from trilane.lab import study
from trilane.lab.asked import from_manifest
from trilane.lab.storage import runs
from trilane.report import terminal


def test_a_race_for_capacity_compares_what_searches_find(
    wanted: Make,
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
    comparison_schema: Draft202012Validator,
) -> None:
    behave(monkeypatch, h2={"low": 15_000.0, "high": 15_600.0}, h3={"low": 5000.0, "high": 5200.0})
    made = study.run(wanted(blocks=6, search=["p99<10ms", "failed<1"]), said.watcher())
    found = made.result.race
    assert found is not None
    assert found.ranking.measure == "capacity_per_s"
    assert found.ranking.winner == "h2"
    assert [measure.name for measure in found.measures] == ["capacity_per_s"]
    reached = {arm.name: arm.summary["capacity_per_s"].median for arm in found.arms}
    assert reached == pytest.approx(
        {"h1": (10_000 * 10_400) ** 0.5, "h2": (15_000 * 15_600) ** 0.5, "h3": 5099}, rel=1e-3
    )
    ratio = next(row for row in found.ratios if row.arm == "h2")
    assert ratio.finding == "higher"
    assert ratio.ratio == pytest.approx(1.5)
    assert found.said.headline.startswith("HTTP/2 holds the highest rate: 1.50× HTTP/1.1 (")
    run = next(s.run for s in found.arms[0].samples)
    assert run is not None
    assert run.capacity is not None
    assert run.capacity.goals == ["p99<10ms", "failed<1"]
    assert run.plan.rate_per_s == 10_000
    document = msgspec.to_builtins(found)
    assert [error.message for error in comparison_schema.iter_errors(document)] == []
    # What each search found is another rate, and no inequality of the arms.
    rows = {row.name for row in found.ledger.rows if not row.equal}
    assert "rate asked for (1/s)" not in rows
    shown = io.StringIO()
    terminal.show(made.result, Console(file=shown, width=110, color_system=None))
    words = " ".join(shown.getvalue().split())
    assert "HTTP/2 15,297 15,297–15,297 15,000–15,600 p99<10ms (8 of 8)" in words
    assert "6 blocks of searches, by 100ms runs" in words


def test_a_search_without_an_answer_makes_its_arm_invalid(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h2={"low": None}, h3={"high": None})
    found = raced(wanted(blocks=6, search=["p99<10ms"]), said)
    verdicts = {arm.name: arm.validity for arm in found.arms}
    assert verdicts["h1"].verdict == "valid"
    assert [reason.code for reason in verdicts["h2"].reasons] == ["no_capacity"]
    assert "holds at no rate that was tried" in verdicts["h2"].reasons[0].text
    assert "holds at every rate that was tried, up to 10,000" in verdicts["h3"].reasons[0].text
    assert found.ranking.winner is None
    assert {row.finding for row in found.ratios} <= {"invalid", "undecided"}
    assert found.verdict == "Invalid. No ranking: HTTP/2 and HTTP/3 ran invalid."


def test_a_race_for_capacity_is_repeated_from_its_manifest(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    behave(monkeypatch)
    made = study.run(wanted(blocks=1, search=["p99<10ms"]), said.watcher())
    again = from_manifest(runs.read_manifest(made.folder), tmp_path)
    assert again.experiment.forms[again.form].workload.search == ("p99<10ms",)

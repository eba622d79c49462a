"""Races of versions before, which left a comparison and kept no experiment: still read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synthetic import folders
from trilane.cli import app
from trilane.lab import asked
from trilane.lab.analysis import compare_runs, sides
from trilane.lab.asked import CannotRun
from trilane.lab.storage import history, runs
from trilane.lab.storage.runs import BadRun
from trilane.lab.storage.store import write_json
from trilane.lab.storage.summaries import summaries

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """One race of a version before, and one of this."""
    folders.race_before(tmp_path, "20261118-100000", FACTORS)
    folders.race(tmp_path, "20261119-100000", FACTORS, seed=2)
    return tmp_path


def test_a_race_before_reads_as_a_race_of_now(state: Path) -> None:
    before, now = (runs.load(runs.find(name, state)) for name in ("20261118", "20261119"))
    assert (before.kind, before.experiment, before.form) == (now.kind, now.experiment, now.form)
    assert before.judged.race is not None
    assert now.judged.race is not None
    assert [arm.strategy for arm in before.judged.race.arms] == ["load", "load"]
    assert before.judged.experiment == now.judged.experiment


def test_both_are_one_series_of_the_history(state: Path) -> None:
    series = history.read(summaries(state), "race").series
    assert [len(each.values) for each in series] == [2, 2]
    assert {each.workload for each in series} == {"a"}


def test_both_are_compared_as_the_same_workload(state: Path) -> None:
    a, b = (sides.load(name, state) for name in ("20261118", "20261119"))
    found = compare_runs.compare(a, b, compare_runs.Wanted(command="trilane compare A B"))
    assert "workload" not in {row.scope for row in found.contrast.differences}


def test_clients_are_called_as_they_are_now(state: Path) -> None:
    folder = runs.find("20261119", state)
    called_before(folder)
    found = runs.load(folder)
    assert [arm.client for arm in found.points[0].comparison.arms] == ["engine", "trilane"]
    wanted = asked.from_manifest(found.manifest, state)
    assert {arm.client for arm in wanted.experiment.forms[wanted.form].arms} == {"engine"}


def called_before(folder: Path) -> None:
    """As if a version before had left the folder: one arm the engine, one the Python client."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for arm in manifest["experiment"]["forms"][manifest["form"]]["arms"]:
        arm["client"] = "trilane"
    write_json(folder / "manifest.json", {**manifest, "schema": "trilane.manifest/1"})
    result = json.loads((folder / "result.json").read_bytes())
    for arm, client in zip(
        result["points"][0]["comparison"]["arms"], ["trilane", "trilane-client"], strict=True
    ):
        arm["client"] = client
    write_json(folder / "result.json", result)


def test_a_race_before_is_shown(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["report", "20261118", "--format", "json", "--state", str(state)]) == 0
    assert '"schema":"trilane.comparison/1"' in capsys.readouterr().out


def test_a_race_before_is_repeated_by_its_command(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = runs.read_manifest(runs.find("20261118", state))
    with pytest.raises(CannotRun, match="type its command: trilane race --seed 1"):
        asked.from_manifest(manifest, state)
    assert app.run(["lab", "replay", "20261118", "--state", str(state)]) == 2
    assert "type its command: trilane race --seed 1" in capsys.readouterr().err


def test_a_race_that_was_interrupted_says_how_to_go_on_or_to_begin_again(tmp_path: Path) -> None:
    before = folders.race_before(tmp_path, "20261118-100000", FACTORS)
    (before / "comparison.json").unlink()
    with pytest.raises(BadRun, match="to make it again: trilane race --seed 1"):
        runs.load_judged(before)
    now = folders.race(tmp_path, "20261119-100000", FACTORS, status="interrupted")
    (now / "result.json").unlink()
    with pytest.raises(BadRun, match="to go on with it: trilane race --seed 1"):
        runs.load_judged(now)


def test_a_damaged_comparison_of_a_race_before_is_named(tmp_path: Path) -> None:
    folder = folders.race_before(tmp_path, "20261118-100000", FACTORS)
    (folder / "comparison.json").write_text('{"schema": "trilane.comparison/2"}', encoding="utf-8")
    with pytest.raises(BadRun, match=r"comparison/2.*not trilane\.comparison/1"):
        runs.load(folder)

"""`trilane runs list`: every run with its status, size and verdict."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from synthetic import folders
from trilane.cli import run as command
from trilane.lab.model.summary import SCHEMA, RunSummary
from trilane.lab.storage import removal
from trilane.report import run_list

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    folders.race(folder, "20261116-100000", FACTORS)
    broken = folders.lab(folder, "20261120-110000", FACTORS)
    (broken / "result.json").write_text("{", encoding="utf-8")
    return folder


def test_all_runs_are_listed(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert command(["runs", "list", "--state", str(state)]) == 0
    head, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "status", "size", "machine", "verdict"]
    race, lab = (next(row for row in rows if name in row) for name in ("-race ", "-bookstore-fair"))
    assert "HTTP/2 is faster than" in race
    assert " broken " in lab
    assert total.startswith("2 runs, ")


def test_json_has_the_size_of_each(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["runs", "list", "--state", str(state), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "trilane.runs/1"
    race, lab = document["runs"]
    assert (race["status"], race["experiment"]) == ("complete", "race")
    assert race["size_bytes"] == removal.size_bytes(state / "runs" / race["folder"]) > 0
    assert (lab["status"], "arms" in lab) == ("broken", False)


@pytest.mark.parametrize("flags", [(), ("--format", "json")])
def test_without_a_command_runs_are_listed(
    flags: tuple[str, ...], state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--state", str(state), *flags]
    assert command(["runs", "list", *asked]) == 0
    listed = capsys.readouterr().out
    assert command(["runs", *asked]) == 0
    assert capsys.readouterr().out == listed


def test_a_flag_before_a_command_is_not_lost(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["runs", "--state", str(state), "prune", "--keep", "0"]) == 2
    told = capsys.readouterr().err
    assert "flags stand behind the command: trilane runs prune" in told
    assert "try: trilane runs prune --help" in told


def test_a_run_is_shown_as_report_shows_it(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["20261116", "--state", str(state), "--format", "markdown"]
    assert command(["report", *asked]) == 0
    shown = capsys.readouterr().out
    assert command(["runs", "show", *asked]) == 0
    assert capsys.readouterr().out == shown


def row(folder: str, *, quick: bool, verdict: str) -> RunSummary:
    return RunSummary(
        schema=SCHEMA,
        made_of="",
        folder=folder,
        kind="lab",
        experiment="x",
        form="fair",
        quick=quick,
        status="complete",
        started_at="2026-11-20T10:00:00Z",
        command="trilane lab run x",
        machine="0123abcd",
        measure="elapsed_s",
        validity="valid",
        verdict=verdict,
    )


def printed(rows: list[RunSummary], width: int) -> str:
    stream = io.StringIO()
    sizes = {each.folder: 1_234_567 for each in rows}
    run_list.show(rows, sizes, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


VERDICT = "Native engine, HTTP/2, 4 × 50 won: 1.09× native engine, HTTP/1.1, 200 × 1."


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_list_of_runs_breaks_no_word_and_no_name(width: int) -> None:
    rows = [
        row("20261120-100000-race", quick=False, verdict=VERDICT),
        row("20261120-110000-clients-multiplexed-published", quick=True, verdict=VERDICT),
    ]
    shown = printed(rows, width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    assert set(VERDICT.split()) <= set(shown.split())
    for each in rows:
        name = each.folder + (" (quick)" if each.quick else "")
        assert any(line.startswith(f"{name} ") for line in shown.splitlines())

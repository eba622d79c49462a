"""`trilane report`: which run, what goes where, and what it says when it cannot."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import msgspec
import pytest

from synthetic import folders, races
from trilane.cli import app
from trilane.lab.analysis import paired
from trilane.lab.model.comparison import Comparison

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def race() -> Comparison:
    made = races.race(
        FACTORS, histogram=True, machine=folders.MACHINE, started_at="2026-11-20T11:00:00Z"
    )
    return paired.compare(made)


@pytest.fixture
def state(tmp_path: Path, race: Comparison) -> Path:
    """A state folder with one race in it."""
    folders.race(tmp_path / "state", "20261120-110000", FACTORS, histogram=True)
    return tmp_path / "state"


def run(state: Path, *arguments: str) -> int:
    return app.run(["report", *arguments, "--state", str(state)])


def test_without_options_the_latest_run_is_shown_and_its_page_renewed(
    state: Path, race: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state) == 0
    shown = capsys.readouterr()
    assert race.verdict[:40] in shown.out
    page = state / "runs" / "20261120-110000-race" / "report.html"
    assert f"report: {page}" in shown.err
    assert page.read_text().startswith("<!doctype html>")


def test_a_page_goes_where_it_is_asked_for(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state, "race", "-o", str(tmp_path / "page.html")) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert not (state / "runs" / "20261120-110000-race" / "report.html").exists()


def test_a_folder_is_a_run_as_well(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = state / "runs" / "20261120-110000-race"
    assert app.run(["report", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "trilane.comparison/1"


@pytest.mark.parametrize("kind", ["html", "markdown", "csv", "json"])
def test_formats_go_to_stdout_and_nothing_is_written(
    state: Path, kind: str, race: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state, "--format", kind) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    if kind == "html":
        assert shown.out.startswith("<!doctype html>")
    elif kind == "markdown":
        assert shown.out.startswith("**HTTP/2 is faster than HTTP/1.1: ")
    elif kind == "csv":
        assert {row["arm"] for row in csv.DictReader(shown.out.splitlines())} == {"h1", "h2"}
    else:
        assert json.loads(shown.out) == json.loads(msgspec.json.encode(race))
    assert not (state / "runs" / "20261120-110000-race" / "report.html").exists()


def test_charts_are_written(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state, "--format", "json", "--charts", str(tmp_path / "charts")) == 0
    written = sorted(path.name for path in (tmp_path / "charts").iterdir())
    assert "ratios.png" in written
    assert f"charts: {len(written)} files in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 1, "'nothing' names no run folder"),
        (["latest", "-o", "{tmp}/missing/page.html"], 2, "-o takes a file in a folder that exists"),
        (["latest", "-o", "{tmp}"], 2, "-o takes a file in a folder that exists"),
        (["latest", "--charts", "{tmp}/file"], 2, "--charts takes a folder"),
        (["latest", "--format", "pdf"], 2, "'pdf'"),
    ],
)
def test_what_cannot_be_shown_is_one_clear_line(
    state: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    assert run(state, *(word.format(tmp=tmp_path) for word in arguments)) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    if code == 2:
        assert "try: trilane report --help" in error


def test_a_run_without_a_result_says_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "runs" / "20261120-110000-race" / "result.json").unlink()
    assert run(state, "20261120") == 1
    assert "has no result" in capsys.readouterr().err


@pytest.mark.parametrize("hdr", ["HISTFAAAABR42g==", "HISTFAAA", "none"])
def test_a_damaged_histogram_is_one_clear_line(
    state: Path, hdr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in state.rglob("*.json"):
        file.write_text(re.sub(r'"hdr": ?"[^"]+"', f'"hdr":"{hdr}"', file.read_text()))
    assert run(state) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("trilane report: error: a histogram of this run is damaged: ")
    assert shown.err.count("\n") == 1


def test_v_prints_what_thirty_lines_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders.lab(tmp_path, "20261120-110000", FACTORS, histogram=True)
    assert run(tmp_path) == 0
    brief = capsys.readouterr().out
    assert "More with -v: " in brief
    assert app.run(["runs", "show", "-v", "--state", str(tmp_path)]) == 0
    whole = capsys.readouterr().out
    assert "More with -v" not in whole
    assert re.search(r"started +ok +failed +abandoned", whole)
    assert not re.search(r"started +ok +failed +abandoned", brief)

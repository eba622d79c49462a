"""What a command says and ends with when its experiment is done."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from synthetic import labs
from trilane.cli import running
from trilane.lab import study
from trilane.lab.model.lab import ExpectedRatio, LabResult
from trilane.lab.storage import summaries
from trilane.report import html
from trilane.report.screen import Console


def ended_with(result: LabResult, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command whose experiment found this."""
    made = study.Result(result, folder)
    monkeypatch.setattr(study, "run", lambda *_: made)
    monkeypatch.setattr(running, "keep_report", lambda *_: folder / "report.html")
    return running.run("trilane race", cast("Any", None), None, "json")


def gate(arm: str, to: str, ratio: float | None, met: bool | None) -> ExpectedRatio:
    return ExpectedRatio(
        measure="p99", arm=arm, to=to, at=None, low=0.0, high=1.1, ratio=ratio, met=met
    )


@pytest.mark.parametrize(
    ("ratio", "met", "interrupted", "code", "told"),
    [
        (1.0, True, False, 0, ""),
        (1.1, None, False, 0, ""),
        (1.5, False, False, 3, "trilane race: breached: p99 "),
        (None, None, False, 3, "trilane race: breached, as nothing was measured for it: p99 "),
        # The run that goes on will tell.
        (None, None, True, 130, ""),
    ],
)
def test_a_gate_that_nothing_was_measured_for_does_not_pass(
    ratio: float | None,
    met: bool | None,
    interrupted: bool,
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = labs.versions()
    first, second, *_ = result.points[0].comparison.arms
    asked = gate(second.name, first.name, ratio, met)
    result = structs.replace(result, expect=[asked], interrupted=interrupted)
    assert ended_with(result, tmp_path, monkeypatch) == code
    said = capsys.readouterr().err
    assert ("breached" in said) == bool(told)
    assert told in said


@pytest.mark.parametrize(
    ("there", "interrupted", "replaced"),
    [
        (None, False, True),
        (None, True, True),
        ('<meta name="generator" content="Trilane">', False, True),
        # The page of a race that was interrupted replaces none of one that was not.
        ('<meta name="generator" content="Trilane">', True, False),
        ("<p>my own report</p>", False, False),
    ],
)
def test_report_html_is_replaced_only_by_a_whole_race_and_only_if_it_is_ours(
    there: str | None,
    interrupted: bool,
    replaced: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "report.html"
    if there is not None:
        report.write_text(there)
    made = study.Result(structs.replace(labs.versions(), interrupted=interrupted), Path("runs"))
    monkeypatch.setattr(study, "run", lambda *_: made)
    monkeypatch.setattr(html, "render", lambda _: "the page")
    monkeypatch.setattr(summaries, "summary", lambda _: None)
    running.run("trilane race", cast("Any", None), None, "json", here=True)
    assert report.read_text() == ("the page" if replaced else there)
    told = "report.html" if replaced else "runs/report.html"
    assert f"report: {told}\n" in capsys.readouterr().err


def test_where_nobody_watches_each_block_of_each_value_of_a_sweep_is_told_once() -> None:
    log = io.StringIO()
    with running._watcher(Console(file=log)) as watcher:
        for value in ("loss=0%", "loss=1%"):
            for block in (0, 1):
                for arm in ("h1", "h2"):
                    watcher.step(f"{arm} at {value}", block, 2, 60.0)
    blocks = [line.partition(",")[0] for line in log.getvalue().splitlines()]
    assert blocks == ["block 1 of 2", "block 2 of 2"] * 2

"""`trilane history --branch`: the commits of a branch, whichever arm they were, and its steps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from synthetic import folders
from trilane.lab.analysis import steps
from trilane.lab.model.revision import MeasuredRevision
from trilane.lab.storage import history
from trilane.lab.storage.history import NoHistory
from trilane.lab.storage.summaries import summaries

from .conftest import Trilane

# Runs of `main`, and the one at whose commit the server gets slower.
RUNS, SLOWER = 22, 12


def revision(
    arm: str, subject: str, branch: str | None, repository: str = "app", serve: str = "./app {port}"
) -> MeasuredRevision:
    return MeasuredRevision(
        arm=arm,
        repository=repository,
        commit=hashlib.sha1(f"{repository} {subject}".encode()).hexdigest(),  # noqa: S324
        subject=subject,
        command=serve,
        branch=branch,
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each commit of `main` a run that measured it as head, beside the one before it."""
    folder = tmp_path_factory.mktemp("state")
    for number in range(RUNS):
        speed = 1.0 if number < SLOWER else 0.9
        folders.lab(
            folder,
            f"202611{number + 1:02}-100000",
            {"h1": 1.0, "h2": speed},
            seed=number,
            experiment="ab",
            form="revisions",
            revisions=[
                revision("h1", f"Change {number - 1}", None),
                revision("h2", f"Change <{number}>", "main"),
            ],
        )
    # A topic, whose base is `main`; and another repository's `main`.
    folders.lab(
        folder,
        "20261124-100000",
        {"h1": 1.3, "h2": 0.9},
        experiment="ab",
        form="revisions",
        revisions=[
            revision("h1", "Try it", "topic"),
            revision("h2", f"Change <{RUNS - 1}>", "main"),
        ],
    )
    folders.lab(
        folder,
        "20261125-100000",
        {"h1": 1.0, "h2": 2.0},
        experiment="ab",
        form="revisions",
        revisions=[revision("h2", "Other", "main", repository="other")],
    )
    folders.race(folder, "20261126-100000", {"h1": 1.0, "h2": 1.5})
    return folder


def test_a_branch_has_the_values_of_its_commits_whichever_arm_they_were(state: Path) -> None:
    found = history.read(summaries(state), None, branch="main")
    assert found.experiment == "ab"
    app, other = sorted(found.series, key=lambda series: -len(series.values))
    assert (app.name, other.name) == ("app main: ./app {port}", "other main: ./app {port}")
    assert len(app.values) == RUNS + 1
    assert len(other.values) == 1
    # In one run `main` was base, in the others head.
    assert app.values[-1].run.folder.startswith("20261124")
    [topic] = history.read(summaries(state), None, branch="topic").series
    assert [value.software[11:] for value in topic.values] == ["Try it"]
    # Without a branch arms are arms, as ever.
    plain = history.read(summaries(state), "ab")
    assert sorted(len(series.values) for series in plain.series) == [RUNS + 2, RUNS + 2]


def test_another_command_is_another_series(tmp_path: Path) -> None:
    for number, serve in enumerate(("./app {port}", "./app --fast {port}")):
        folders.lab(
            tmp_path,
            f"202611{number + 1:02}-100000",
            {"h1": 1.0, "h2": 1.0},
            experiment="ab",
            revisions=[revision("h2", "One", "main", serve=serve)],
        )
    found = history.read(summaries(tmp_path), None, branch="main")
    assert [len(series.values) for series in found.series] == [1, 1]


def test_a_branch_that_nobody_measured_is_named(state: Path, tmp_path: Path) -> None:
    with pytest.raises(NoHistory, match="no run has measured the branch 'x': there is main, topic"):
        history.read(summaries(state), None, branch="x")
    folders.race(tmp_path, "20261126-100000", {"h1": 1.0, "h2": 1.5})
    with pytest.raises(NoHistory, match="trilane ab measures branches"):
        history.read(summaries(tmp_path), None, branch="main")


def test_the_step_is_at_the_commit_that_made_it(trilane: Trilane) -> None:
    code, out, err = trilane("--branch", "main", "--format", "json")
    assert code == 0, err
    told = json.loads(out)
    assert told["branch"] == "main"
    app = max(told["series"], key=lambda series: len(series["values"]))
    [step] = app["steps"]
    assert step["value"] == SLOWER
    assert step["low"] < 0.9 < step["high"] < 1
    value = app["values"][SLOWER]
    assert value["run"] == step["run"]
    assert (value["subject"], value["branch"]) == (f"Change <{SLOWER}>", "main")
    assert value["commit"] == revision("h2", f"Change <{SLOWER}>", "main").commit


@pytest.mark.usefixtures("drawn")
def test_table_and_page_say_the_step(trilane: Trilane, tmp_path: Path) -> None:
    file = tmp_path / "history.html"
    code, out, err = trilane("--branch", "main", "--report", str(file))
    assert code == 0, err
    commit = revision("h2", f"Change <{SLOWER}>", "main").commit[:10]
    [line] = [line for line in out.splitlines() if " stepped by " in line]
    assert line.startswith("app main: ./app {port} stepped by -")
    assert f"%), worse, at {commit} Change <{SLOWER}>, measured 2026-11-{SLOWER + 1}" in line
    page = file.read_text(encoding="utf-8")
    assert "branch main" in page
    assert f"worse, at {commit} Change &lt;{SLOWER}&gt;" in page
    assert 'stroke-dasharray="5,4"' in page


def test_what_steps_at_the_same_commit_is_put_down_to_the_machine(
    trilane: Trilane, tmp_path: Path
) -> None:
    for number in range(16):
        folders.lab(
            tmp_path,
            f"202611{number + 1:02}-100000",
            {"h1": 1.0, "h2": 1.0 if number < 8 else 1.3},
            seed=number,
            experiment="ab",
            revisions=[revision("h2", "One", "main")],
        )
    code, out, err = trilane("--branch", "main", at=tmp_path)
    assert code == 0, err
    assert "better, at" in out
    said = "the one before was the same, so the machine or what it asks for changed"
    assert said in " ".join(out.split())


def test_invalid_values_make_no_step(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = history.read(summaries(state), None, branch="main")
    app = max(found.series, key=lambda series: len(series.values))
    usable = steps._usable
    # Without the third value the places are still those of the whole series.
    monkeypatch.setattr(
        steps, "_usable", lambda value: value is not app.values[2] and usable(value)
    )
    assert [step.place for step in steps.of(app)] == [SLOWER]

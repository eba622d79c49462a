"""Summaries follow the run folders, whatever happens to them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import folders
from trilane.lab.model.summary import BROKEN
from trilane.lab.storage import runs, store, summaries
from trilane.lab.storage.summaries import FILE, summary

FACTORS = {"h1": 1.0, "h2": 1.5}
RACE = "20261118-100000-race"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    folders.race(folder, "20261118-100000", FACTORS)
    folders.lab(folder, "20261119-100000", FACTORS, points=(100.0, 1000.0))
    return folder


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "state")


def statuses(state: Path) -> dict[str, str]:
    return {each.folder: each.status for each in summaries.summaries(state)}


def unread(_folder: Path) -> None:
    raise AssertionError("a summary that was kept was made anew")


def test_it_holds_what_the_folder_says(state: Path) -> None:
    race, lab = summaries.summaries(state)
    assert (race.kind, race.status, race.measure) == ("race", "complete", "requests_per_s")
    assert (lab.kind, lab.experiment, lab.form) == ("lab", "bookstore", "fair")
    assert race.machine == lab.machine
    assert lab.verdict
    assert lab.verdict.startswith("HTTP/2 is faster than HTTP/1.1")
    assert [(arm.point, arm.arm) for arm in lab.arms] == [
        (100.0, "h1"),
        (100.0, "h2"),
        (1000.0, "h1"),
        (1000.0, "h2"),
    ]
    p50 = lab.arms[0].reached["p50"]
    assert p50.low is not None
    assert p50.median is not None
    assert p50.low <= p50.median
    assert (p50.unit, lab.arms[0].software) == ("s", "trilane 0.1.0 (0123abc)")


def test_it_is_made_once(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = summaries.summaries(state)
    monkeypatch.setattr(runs, "load", unread)
    assert summaries.summaries(state) == before


def test_a_folder_that_was_moved_keeps_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = summary(state / "runs" / RACE)
    (state / "runs" / RACE).rename(state / "runs" / "20261117-090000-race")
    monkeypatch.setattr(runs, "load", unread)
    found = summary(state / "runs" / "20261117-090000-race")
    assert (found.folder, found.verdict) == ("20261117-090000-race", before.verdict)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": "trilane.summary/0"}', b"\xff"])
def test_one_that_is_damaged_or_of_another_version_is_made_anew(
    state: Path, content: bytes
) -> None:
    folder = state / "runs" / RACE
    before = summary(folder)
    (folder / FILE).write_bytes(content)
    assert summary(folder) == before
    assert json.loads((folder / FILE).read_bytes())["verdict"] == before.verdict


def test_one_of_other_files_is_made_anew(state: Path) -> None:
    folder = state / "runs" / RACE
    before = summary(folder)
    forge(folder / FILE, verdict="forged")
    assert summary(folder).verdict == "forged"
    os.utime(folder / "result.json", ns=(1, 1))
    assert summary(folder).verdict == before.verdict


def test_all_files_are_read_where_that_is_asked(state: Path) -> None:
    folder = state / "runs" / RACE
    before = summary(folder)
    forge(folder / FILE, verdict="forged")
    assert summaries.summaries(state, anew=True)[0].verdict == before.verdict
    assert summary(folder).verdict == before.verdict


def forge(file: Path, **changes: Any) -> None:
    store.write_json(file, {**json.loads(file.read_bytes()), **changes})


def test_what_was_added_changed_and_removed_is_seen(state: Path) -> None:
    assert len(statuses(state)) == 2
    folders.race(state, "20261120-100000", FACTORS)
    assert len(statuses(state)) == 3
    shutil.rmtree(state / "runs" / RACE)
    (state / "runs" / "20261120-100000-race" / "manifest.json").write_text("{", encoding="utf-8")
    kept, broken = summaries.summaries(state)
    assert kept.status == "complete"
    assert broken.status == BROKEN
    assert broken.problem
    assert "is damaged" in broken.problem
    assert broken.arms == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", '{"schema": "trilane.comparison/1", "arms": []}'),
        ("manifest.json", "{}"),
    ],
)
def test_a_folder_whose_file_lacks_something_is_broken_not_fatal(
    state: Path, file: str, content: str
) -> None:
    (state / "runs" / RACE / file).write_text(content, encoding="utf-8")
    assert list(statuses(state).values()) == [BROKEN, "complete"]


def test_an_experiment_that_is_none_is_broken_not_fatal(state: Path) -> None:
    manifest = next((state / "runs").glob("*-bookstore-fair")) / "manifest.json"
    document = json.loads(manifest.read_bytes())
    document["experiment"]["forms"] = []
    store.write_json(manifest, {**document, "experiment": {"name": "bookstore", "forms": [1]}})
    assert list(statuses(state).values()) == ["complete", BROKEN]


def test_a_folder_that_cannot_be_written_is_summarised_each_time(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root writes everywhere, so the refusal is made up.
    def refuse(path: Path, _value: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(store, "write_json", refuse)
    assert summary(state / "runs" / RACE) == summary(state / "runs" / RACE)
    assert not (state / "runs" / RACE / FILE).exists()


ACTIONS = st.tuples(st.integers(0, 3), st.sampled_from(["add", "remove", "damage", "look"]))


@settings(max_examples=20)
@given(st.lists(ACTIONS, min_size=1, max_size=8))
def test_they_follow_the_folders_whatever_happens_to_them(
    made: Path, tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[int, str]]
) -> None:
    state = tmp_path_factory.mktemp("state")
    there: dict[str, str] = {}
    for number, action in [*actions, (0, "look")]:
        name = f"2026112{number}-100000-race"
        folder = state / "runs" / name
        if action == "add" and name not in there:
            shutil.copytree(made / "runs" / RACE, folder)
            there[name] = "complete"
        elif action == "remove" and name in there:
            shutil.rmtree(folder)
            del there[name]
        elif action == "damage" and name in there:
            (folder / "manifest.json").write_text("{", encoding="utf-8")
            there[name] = BROKEN
        elif action == "look":
            assert statuses(state) == there
            whole = {name for name, status in there.items() if status == "complete"}
            assert {s.folder for s in summaries.summaries(state) if s.arms} == whole

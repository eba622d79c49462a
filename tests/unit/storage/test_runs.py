"""Which run a word means, and what is said when it means none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from synthetic import folders
from trilane.lab.storage import runs
from trilane.lab.storage.runs import BadRun

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    folders.race(folder, "20261118-100000", FACTORS)
    folders.lab(folder, "20261119-100000", FACTORS, form="published")
    folders.lab(folder, "20261119-110000", FACTORS)
    folders.lab(folder, "20261120-100000", FACTORS, status="interrupted", result=False)
    return folder


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "state")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("latest", "20261119-110000-bookstore-fair"),
        ("20261118-100000-race", "20261118-100000-race"),
        ("20261118", "20261118-100000-race"),
        ("20261119-11", "20261119-110000-bookstore-fair"),
        ("race", "20261118-100000-race"),
        ("bookstore", "20261119-110000-bookstore-fair"),
        ("bookstore-published", "20261119-100000-bookstore-published"),
    ],
)
def test_a_word_names_a_run(state: Path, word: str, name: str) -> None:
    assert runs.find(word, state).name == name


def test_a_path_to_a_folder_or_to_a_file_in_it_names_it(state: Path) -> None:
    folder = state / "runs" / "20261118-100000-race"
    assert runs.find(str(folder), Path("elsewhere")) == folder
    assert runs.find(str(folder / "result.json"), Path("elsewhere")) == folder


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("20261119", "begins the names of 2 runs: 20261119-110000-bookstore-fair, 20261119-100000"),
        ("strategies", "no experiment that has run; the latest are: 20261120-100000"),
        ("", "'' names no run folder"),
        ("~nobody-of-this-name", "'~nobody-of-this-name' names no run folder"),
        ("/nowhere/at/all", "/nowhere/at/all is not a run folder: there is no such folder"),
    ],
)
def test_a_word_that_names_none_says_what_there_is(state: Path, word: str, said: str) -> None:
    with pytest.raises(BadRun, match=r".") as caught:
        runs.find(word, state)
    assert said in str(caught.value)


def test_a_folder_without_a_manifest_is_no_run(state: Path) -> None:
    with pytest.raises(BadRun, match=r"holds no manifest\.json"):
        runs.find(str(state / "runs"), state)


def test_an_empty_state_folder_says_how_to_make_a_run(tmp_path: Path) -> None:
    for word in ("latest", "bookstore"):
        with pytest.raises(BadRun, match="trilane race"):
            runs.find(word, tmp_path)


def test_an_experiment_without_a_complete_run_says_how_to_go_on(tmp_path: Path) -> None:
    folders.lab(tmp_path, "20261120-100000", FACTORS, status="interrupted", result=False)
    with pytest.raises(BadRun, match="trilane lab run bookstore --form fair"):
        runs.find("bookstore", tmp_path)


def test_race_and_lab_read_alike(state: Path) -> None:
    race = runs.load_judged(runs.find("race", state))
    lab = runs.load_judged(runs.find("bookstore", state))
    assert (race.kind, race.experiment, race.form) == ("race", "race", None)
    assert (lab.kind, lab.experiment, lab.form) == ("lab", "bookstore", "fair")
    assert [point.value for point in race.points] == [None]
    assert lab.points[0].comparison.schema == "trilane.comparison/1"
    assert race.judged.validity == lab.judged.validity
    assert [measure.name for measure in race.points[0].comparison.measures][:2] == [
        "requests_per_s",
        "p50",
    ]


def test_a_run_without_a_result_says_how_to_go_on(state: Path) -> None:
    with pytest.raises(BadRun, match="is interrupted; to go on with it: trilane lab run bookstore"):
        runs.load_judged(state / "runs" / "20261120-100000-bookstore-fair")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is damaged"),
        ("[]", "holds no JSON object"),
        ("[" * 100_000, "is damaged"),
        ('{"schema": "trilane.manifest/9"}', "has schema 'trilane.manifest/9'"),
        ('{"schema": "trilane.manifest/1", "kind": "walk"}', "of kind 'walk'"),
        ('{"schema": "trilane.manifest/1", "kind": "lab"}', "missing required field `status`"),
    ],
)
def test_a_damaged_manifest_is_named(state: Path, content: str, said: str) -> None:
    folder = state / "runs" / "20261118-100000-race"
    (folder / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadRun, match=r"manifest\.json") as caught:
        runs.load(folder)
    assert said in str(caught.value)


def test_a_result_of_another_schema_is_named(state: Path) -> None:
    file = state / "runs" / "20261118-100000-race" / "result.json"
    file.write_text(json.dumps({"schema": "trilane.lab/2"}), encoding="utf-8")
    with pytest.raises(BadRun, match=r"lab/2.*not trilane\.lab/1"):
        runs.load(file.parent)


def test_the_signature_follows_the_files(state: Path) -> None:
    folder = state / "runs" / "20261118-100000-race"
    before = runs.signature(folder)
    assert before == runs.signature(folder)
    (folder / "result.json").unlink()
    assert runs.signature(folder) != before


def test_a_result_refers_to_its_runs_and_has_them_when_it_is_read(tmp_path: Path) -> None:
    folder = folders.race(tmp_path, "20261120-100000", {"h1": 1.0, "h2": 1.5}, blocks=3)
    kept = (folder / "result.json").stat().st_size
    lying = sum(file.stat().st_size for file in (folder / "runs").iterdir())
    assert kept < lying / 2
    arms = runs.load(folder).points[0].comparison.arms
    assert all(sample.run is not None for arm in arms for sample in arm.samples)


def test_a_result_whose_run_is_gone_or_damaged_says_which(tmp_path: Path) -> None:
    folder = folders.race(tmp_path, "20261120-100000", {"h1": 1.0, "h2": 1.5}, blocks=3)
    gone = min((folder / "runs").iterdir())
    gone.write_text("{", encoding="utf-8")
    with pytest.raises(BadRun, match=f"{gone.name} is damaged: "):
        runs.load(folder)
    gone.unlink()
    with pytest.raises(BadRun, match=rf"refers to .*{gone.name}, which cannot be read: No such"):
        runs.load(folder)

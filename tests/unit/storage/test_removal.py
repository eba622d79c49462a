"""`trilane runs rm` and `prune` remove only what is surely a run, and none that still goes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trilane.cli import run as command
from trilane.lab.model.manifest import SCHEMA, Manifest, Status
from trilane.lab.storage import store
from trilane.lab.storage.activity import is_going

Runs = Callable[..., tuple[int, str, str]]


def made(
    state: Path, day: int, *, size: int = 1000, status: Status = "complete", month: int = 10
) -> Path:
    """A run folder that began at noon of this day; `size` is that of a file in it."""
    folder = state / "runs" / f"2026{month}{day:02}-120000-race"
    (folder / "runs").mkdir(parents=True)
    manifest = Manifest(
        schema=SCHEMA,
        kind="race",
        status=status,
        command="trilane race",
        started_at=f"2026-{month}-{day:02}T12:00:00Z",
        seed=1,
        machine={},
    )
    store.write_json(folder / "manifest.json", manifest)
    (folder / "runs" / "1.json").write_bytes(b"x" * size)
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def runs(state: Path, capsys: pytest.CaptureFixture[str]) -> Runs:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = command(["runs", *arguments, "--state", str(state)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def there(state: Path) -> list[str]:
    """The days of the runs that are left."""
    return sorted(folder.name[6:8] for folder in (state / "runs").iterdir())


@pytest.mark.parametrize("by_path", [False, True])
def test_a_run_that_is_named_is_removed(by_path: bool, runs: Runs, state: Path) -> None:
    first = made(state, 1)
    made(state, 2)
    code, out, err = runs("rm", f"{first}/" if by_path else first.name)
    assert (code, err) == (0, "")
    assert first.name in out
    assert "removed 1 run, 1," in out
    assert there(state) == ["02"]


def test_a_dry_run_removes_nothing(runs: Runs, state: Path) -> None:
    folder = made(state, 1)
    for arguments in (("rm", folder.name), ("prune", "--older-than", "1h")):
        code, out, _ = runs(*arguments, "--dry-run")
        assert code == 0
        assert f"{folder.name}  1," in out
        assert "would remove 1 run" in out
        assert there(state) == ["01"]


def foreign(folder: Path, kind: str) -> None:
    """What lies beside run folders, and is none."""
    outside = folder.parent.parent.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("", encoding="ascii")
    if kind == "link":
        shutil.copytree(made(outside, 3), outside / "run")
        folder.symlink_to(outside / "run")
        return
    if kind == "file":
        folder.write_text("", encoding="ascii")
        return
    folder.mkdir()
    manifest = folder / "manifest.json"
    if kind == "linked manifest":
        manifest.symlink_to(made(outside, 3) / "manifest.json")
    elif kind != "no manifest":
        manifest.write_text(kind, encoding="utf-8")


KINDS = [
    *("link", "file", "linked manifest", "no manifest"),
    *("{", "[]", '{"schema": "other/1"}', "[" * 100_000),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[:20])
def test_what_is_not_surely_a_run_is_left_alone(kind: str, runs: Runs, state: Path) -> None:
    run = made(state, 1)
    alien = state / "runs" / "20261002-120000-race"
    foreign(alien, kind)
    before = sorted(state.parent.rglob("*"))
    code, out, err = runs("rm", run.name, alien.name)
    assert (code, out) == (1, "")
    assert alien.name in err
    assert err.endswith("nothing was removed\n")
    assert sorted(state.parent.rglob("*")) == before
    code, _, err = runs("prune", "--older-than", "1h")
    assert code == 0
    assert f"left alone: {alien.name}: " in err
    assert there(state) == ["02"]


def test_a_run_whose_lock_is_a_folder_is_left_alone(runs: Runs, state: Path) -> None:
    odd = made(state, 1)
    (odd / ".lock").mkdir()
    made(state, 2)
    code, out, err = runs("prune", "--older-than", "1h")
    assert (code, there(state)) == (0, ["01"])
    assert "removed 1 run" in out
    assert f"left alone: {odd.name}: " in err
    assert "its .lock is a folder" in err
    assert runs("rm", odd.name)[0] == 1


def test_a_run_that_cannot_be_read_is_named_and_left_alone(
    runs: Runs, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made(state, 1)
    locked = made(state, 2)
    made(state, 3)
    real = os.stat

    # Root may read everything, so the refusal is made up.
    def refuse(path: str | Path, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{locked}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    code, out, _ = runs("list")
    assert code == 0
    assert "cannot read" in out
    code, _, err = runs("rm", locked.name)
    assert code == 1
    assert "Permission denied" in err
    code, _, err = runs("prune", "--older-than", "1h")
    assert (code, there(state)) == (0, ["02"])
    assert f"left alone: {locked.name}: " in err
    assert not is_going(locked)
    # With nothing else there: no run has a result.
    assert command(["report", "latest", "--state", str(state)]) == 1
    assert "there is no run with a result" in capsys.readouterr().err


UNKNOWN_USER = "~nobody-of-this-name"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "2026", "../runs", "./x", "~", "latest", UNKNOWN_USER]
)
def test_only_whole_names_of_runs_are_taken(name: str, runs: Runs, state: Path) -> None:
    made(state, 1)
    code, _, err = runs("rm", name)
    assert code == 1
    assert "nothing was removed" in err
    assert there(state) == ["01"]


def test_a_folder_of_runs_that_is_a_link_is_left_alone(runs: Runs, state: Path) -> None:
    folder = made(state.parent / "elsewhere", 1)
    state.mkdir()
    (state / "runs").symlink_to(state.parent / "elsewhere" / "runs")
    for arguments in (("rm", folder.name), ("prune", "--keep", "1")):
        code, _, err = runs(*arguments)
        assert code == 1
        assert "is a link: nothing that it leads to is removed" in err
    assert folder.is_dir()


def test_what_a_link_in_a_run_leads_to_stays(runs: Runs, state: Path) -> None:
    folder = made(state, 1)
    outside = state.parent / "outside"
    (outside / "below").mkdir(parents=True)
    (outside / "file").write_text("", encoding="ascii")
    (folder / "to-folder").symlink_to(outside)
    (folder / "runs" / "to-folder").symlink_to(outside)
    (folder / "runs" / "to-file").symlink_to(outside / "file")
    assert runs("rm", folder.name)[0] == 0
    assert there(state) == []
    assert [path.name for path in sorted(outside.iterdir())] == ["below", "file"]


def test_a_run_that_is_still_going_is_left_alone(runs: Runs, state: Path) -> None:
    folder = made(state, 1, status="running")
    (folder / ".lock").write_text("", encoding="ascii")
    with (folder / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = runs("rm", folder.name)
        assert code == 1
        assert "it is still running" in err
        code, _, err = runs("prune", "--older-than", "1h")
        assert code == 0
        assert f"left alone: {folder.name}: it is still running" in err
        assert there(state) == ["01"]
    # Its command was killed.
    assert runs("rm", folder.name)[0] == 0
    assert there(state) == []


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (("--keep", "2"), ["03", "04"]),
        (("--keep", "9"), ["01", "02", "03", "04"]),
        # Runs of 10,000 bytes and a manifest.
        (("--max-size", "25k"), ["03", "04"]),
        (("--max-size", "1k"), []),
        (("--max-size", "25k", "--keep", "1"), ["04"]),
        (("--older-than", "520w"), ["01", "02", "03", "04"]),
        (("--older-than", "520w", "--keep", "3"), ["02", "03", "04"]),
    ],
)
def test_the_oldest_go_until_the_limits_hold(
    limits: tuple[str, ...], left: list[str], runs: Runs, state: Path
) -> None:
    for day in (3, 1, 4, 2):
        made(state, day, size=10_000)
    assert runs("prune", *limits)[0] == 0
    assert there(state) == left


def test_a_small_run_does_not_outlive_a_newer_one(runs: Runs, state: Path) -> None:
    for day, size in ((1, 53_000), (2, 303_000), (3, 903_000)):
        made(state, day, size=size)
    assert runs("prune", "--max-size", "1m")[0] == 0
    assert there(state) == ["03"]


def test_a_run_that_is_going_counts_and_stays(runs: Runs, state: Path) -> None:
    for day, size in ((1, 10), (3, 10)):
        made(state, day, size=size)
    (made(state, 2, size=50_000, status="running") / ".lock").touch()
    with (state / "runs" / "20261002-120000-race" / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert runs("prune", "--max-size", "25k")[0] == 0
        assert there(state) == ["02", "03"]


def test_age_counts_from_the_start_of_a_run(runs: Runs, state: Path) -> None:
    now = datetime.now(UTC)
    for days, folder in ((3, made(state, 1)), (1, made(state, 2))):
        file = folder / "manifest.json"
        began = (now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        store.write_json(file, {**json.loads(file.read_bytes()), "started_at": began})
    assert runs("prune", "--older-than", "2d")[0] == 0
    assert there(state) == ["02"]


def test_a_run_whose_removal_was_cut_short_can_be_removed(
    runs: Runs, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(state, 1)
    (folder / "logs").mkdir()
    real = shutil.rmtree

    def cut(path: str) -> None:
        real(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", cut)
        assert runs("rm", folder.name)[0] == 130
    assert there(state) == ["01"]
    assert runs("rm", folder.name)[0] == 0
    assert there(state) == []


def test_a_run_that_the_system_keeps_is_told(
    runs: Runs, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = made(state, 1), made(state, 2)
    real = shutil.rmtree

    # Root may remove everything, so the refusal is made up.
    def refuse(path: str) -> None:
        if folder.name in path:
            raise PermissionError(13, "Permission denied", path)
        real(path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    code, out, err = runs("prune", "--older-than", "1h")
    assert code == 1
    assert other.name in out
    assert f"left alone: {folder.name}: could not remove {folder}/runs: Permission denied" in err


def test_json_has_what_was_removed_and_what_was_not(runs: Runs, state: Path) -> None:
    folder = made(state, 1)
    (state / "runs" / "20261002-notes").mkdir()
    code, out, _ = runs("prune", "--older-than", "1h", "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["schema"], document["dry_run"]) == ("trilane.removal/1", False)
    [removed] = document["removed"]
    assert (removed["folder"], removed["started_at"]) == (folder.name, "2026-10-01T12:00:00Z")
    assert removed["size_bytes"] > 1000
    assert [each["folder"] for each in document["left"]] == ["20261002-notes"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("prune",),
        ("prune", "--older-than", "1m"),
        ("prune", "--older-than", "0d"),
        ("prune", "--older-than", "30"),
        ("prune", "--keep", "0"),
        ("prune", "--max-size", "0"),
        ("prune", "--max-size", "1x"),
        ("rm",),
        ("remove",),
    ],
)
def test_wrong_use_removes_nothing(arguments: tuple[str, ...], runs: Runs, state: Path) -> None:
    made(state, 1)
    code, out, err = runs(*arguments)
    assert (code, out) == (2, "")
    assert "try: trilane runs" in err
    assert there(state) == ["01"]


def test_without_a_run_there_is_nothing_to_remove(runs: Runs) -> None:
    assert runs("prune", "--keep", "1") == (0, "nothing to remove\n", "")
    assert runs("list")[0] == 1

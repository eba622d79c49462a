"""The index follows the run folders, whatever happens to it."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import folders
from trilane.lab.storage import index

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    folders.race(folder, "20261118-100000", FACTORS)
    folders.lab(folder, "20261119-100000", FACTORS, points=(100.0, 1000.0))
    return folder


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "state")


def names(state: Path) -> list[str]:
    with index.open_index(state) as opened:
        return [row.folder for row in opened.runs()]


def test_it_holds_what_the_folders_say(state: Path) -> None:
    with index.open_index(state) as opened:
        race, lab = opened.runs()
        values = opened.values("bookstore", measure="p50")
    assert (race.kind, race.status, race.measure) == ("race", "complete", "requests_per_s")
    assert (lab.kind, lab.experiment, lab.form) == ("lab", "bookstore", "fair")
    assert race.machine == lab.machine
    assert lab.verdict
    assert lab.verdict.startswith("HTTP/2 won")
    assert [(value.point, value.arm) for value in values] == [
        (100.0, "h1"),
        (100.0, "h2"),
        (1000.0, "h1"),
        (1000.0, "h2"),
    ]
    assert values[0].low is not None
    assert values[0].median is not None
    assert values[0].low <= values[0].median
    assert (values[0].unit, values[0].software) == ("s", "trilane 0.1.0 (0123abc)")


def test_it_sees_what_was_added_changed_and_removed(state: Path) -> None:
    assert len(names(state)) == 2
    folders.race(state, "20261120-100000", FACTORS)
    assert len(names(state)) == 3
    shutil.rmtree(state / "runs" / "20261118-100000-race")
    (state / "runs" / "20261120-100000-race" / "manifest.json").write_text("{", encoding="utf-8")
    with index.open_index(state) as opened:
        kept, broken = opened.runs()
        assert opened.values("race") == []
    assert kept.status == "complete"
    assert broken.status == index.BROKEN
    assert broken.problem
    assert "is damaged" in broken.problem


def test_a_folder_whose_result_lacks_something_is_broken_not_fatal(state: Path) -> None:
    file = state / "runs" / "20261118-100000-race" / "result.json"
    file.write_text('{"schema": "trilane.comparison/1", "arms": []}', encoding="utf-8")
    with index.open_index(state) as opened:
        assert [row.status for row in opened.runs()] == [index.BROKEN, "complete"]


ACTIONS = st.tuples(st.integers(0, 3), st.sampled_from(["add", "remove", "damage", "look"]))


@settings(max_examples=20)
@given(st.lists(ACTIONS, min_size=1, max_size=8))
def test_it_follows_the_folders_whatever_happens_to_them(
    made: Path, tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[int, str]]
) -> None:
    state = tmp_path_factory.mktemp("state")
    there: dict[str, str] = {}
    for number, action in [*actions, (0, "look")]:
        name = f"2026112{number}-100000-race"
        folder = state / "runs" / name
        if action == "add" and name not in there:
            shutil.copytree(made / "runs" / "20261118-100000-race", folder)
            there[name] = "complete"
        elif action == "remove" and name in there:
            shutil.rmtree(folder)
            del there[name]
        elif action == "damage" and name in there:
            (folder / "manifest.json").write_text("{", encoding="utf-8")
            there[name] = index.BROKEN
        elif action == "look":
            with index.open_index(state) as opened:
                assert {row.folder: row.status for row in opened.runs()} == there
                whole = {name for name, status in there.items() if status == "complete"}
                assert {value.folder for value in opened.values("race")} == whole


@pytest.mark.parametrize("content", [b"this is no database" * 99, b"", b"SQLite format 3\0" * 300])
def test_a_damaged_index_is_made_anew(state: Path, content: bytes) -> None:
    before = names(state)
    for leftover in state.glob(f"{index.FILE}*"):
        leftover.write_bytes(content)
    said: list[str] = []
    with index.open_index(state, said.append) as opened:
        assert [row.folder for row in opened.runs()] == before
    assert len(said) == 1
    assert "made anew from the run folders" in said[0]


def test_an_index_damaged_in_the_middle_is_made_anew(state: Path) -> None:
    before = names(state)
    file = state / index.FILE
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(bytes(content))
    assert names(state) == before


def test_an_index_of_another_version_is_made_anew(state: Path) -> None:
    before = names(state)
    with sqlite3.connect(state / index.FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    said: list[str] = []
    with index.open_index(state, said.append) as opened:
        assert [row.folder for row in opened.runs()] == before
    assert "version 99" in said[0]


def test_a_missing_index_is_made_without_a_word(state: Path) -> None:
    said: list[str] = []
    with index.open_index(state, said.append) as opened:
        assert len(opened.runs()) == 2
    assert said == []


def test_rebuilding_forgets_what_the_folders_do_not_say(state: Path) -> None:
    names(state)
    with sqlite3.connect(state / index.FILE) as connection:
        connection.execute("UPDATE run SET verdict = 'forged'")
    connection.close()
    with index.open_index(state) as opened:
        assert opened.runs()[0].verdict == "forged"
    assert all(row.verdict != "forged" for row in index.rebuild(state))


def test_adding_a_run_never_fails_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folders.race(state, "20261120-100000", FACTORS)
    assert index.add_run(folder) is None
    monkeypatch.setattr(index, "_BUSY_S", 0.1)
    blocker = sqlite3.connect(state / index.FILE, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    problem = index.add_run(folder)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert problem
    assert "was not updated" in problem
    assert "locked" in problem
    assert len(names(state)) == 3


def test_a_state_folder_that_cannot_be_written_has_its_index_in_memory(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root writes everywhere, so the answer is made up.
    monkeypatch.setattr(index, "_writable", lambda _state: False)
    said: list[str] = []
    with index.open_index(state, said.append) as opened:
        assert len(opened.runs()) == 2
    assert "kept in memory" in said[0]
    assert not (state / index.FILE).exists()


class _Locked:
    """A connection that SQLite calls locked at once, as it does when two switch to the log."""

    def __init__(self, times: int, code: int) -> None:
        self.left = times
        self._code = code

    def execute(self, _statement: str) -> None:
        if self.left:
            self.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self._code
            raise error


def test_the_switch_to_the_log_is_tried_again_while_others_are_in_the_way() -> None:
    locked = _Locked(3, sqlite3.SQLITE_BUSY)
    index._use_wal(locked)  # type: ignore[arg-type]
    assert locked.left == 0
    broken = _Locked(3, sqlite3.SQLITE_CORRUPT)
    with pytest.raises(sqlite3.OperationalError):
        index._use_wal(broken)  # type: ignore[arg-type]
    assert broken.left == 2


def test_no_index_is_opened_while_another_command_may_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file would be gone between the opening and the first statement."""
    folders.race(tmp_path, "20261118-100000", FACTORS)
    really, held = index._open, []

    def opened(file: Path) -> sqlite3.Connection:
        with (tmp_path / f"{index.FILE}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)
            else:
                held.append(False)
        return really(file)

    monkeypatch.setattr(index, "_open", opened)
    for _ in ("made", "found"):
        assert len(index.rebuild(tmp_path)) == 1
    assert held
    assert all(held)

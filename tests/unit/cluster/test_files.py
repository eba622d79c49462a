"""Files of a plan: read once, kept for nobody else's eyes, refused where they are too long."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from trilane.cluster import files
from trilane.cluster.files import BadFiles


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_arrive_by_the_paths_as_typed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"one")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/a.json").write_bytes(b"two")
    typed = [str(tmp_path / "a.json"), str(tmp_path / "b/a.json"), str(tmp_path / "a.json")]
    contents = files.read(typed)
    assert contents == {typed[0]: b"one", typed[1]: b"two"}
    folder = files.own_folder() / "run"
    kept = files.keep(folder, contents)
    assert {path: Path(place).read_bytes() for path, place in kept.items()} == contents
    # What a file is may follow from how its name ends.
    assert {Path(place).name for place in kept.values()} == {"a.json"}
    assert {mode(Path(place)) for place in kept.values()} == {0o600}
    assert mode(folder) == mode(files.own_folder()) == 0o700


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFiles, match=r"nothing\.csv cannot be read: No such file"):
        files.read([str(tmp_path / "nothing.csv")])


def test_files_that_are_too_long_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TOTAL_LIMIT", 2 << 20)
    for name in "abc":
        (tmp_path / name).write_bytes(bytes(1 << 20))
    files.read([str(tmp_path / "a"), str(tmp_path / "b")])
    with pytest.raises(BadFiles, match=r"longer than the 2 MiB .*/c is one of them"):
        files.read([str(tmp_path / name) for name in "abc"])


def test_a_folder_that_others_may_read_is_not_used() -> None:
    files.own_folder().chmod(0o755)
    with pytest.raises(BadFiles, match="is not a folder of this user alone"):
        files.own_folder()


def test_a_name_is_claimed_once() -> None:
    assert files.claim("run-worker")
    assert not files.claim("run-worker")
    assert files.claim("run-other")

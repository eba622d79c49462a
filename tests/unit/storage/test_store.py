"""Folders are where XDG says; files are written whole, with the mode that every new file has."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trilane.lab.storage import store


def test_the_cache_is_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_folder() == tmp_path / "trilane"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert store.cache_folder() == Path.home() / ".cache" / "trilane"


def test_a_file_has_the_mode_of_new_files_without_a_change_for_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_mask: int) -> int:
        raise AssertionError("another thread's files would have the mode that is set here")

    tmp_path.chmod(0o755)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    before = os.umask(0o027)
    try:
        store.write_json(private / "a.json", {"b": 1})
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", change)
            store.write_json(tmp_path / "a.json", {"b": 1})
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640
    # What lies where only the user may look stays theirs, also where it is moved.
    assert (private / "a.json").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "result.json"
    store.write_text(file, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(store.CannotWrite) as raised:
        store.write_text(file, "new")
    assert str(raised.value) == f"cannot write {file}: No space left on device"
    assert [file.read_text(), [path.name for path in tmp_path.iterdir()]] == ["old", [file.name]]

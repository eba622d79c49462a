"""The files that a plan reads: read where the command was typed, kept on each worker."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TOTAL_LIMIT = 64 << 20
"""Bytes of all files of a plan: each worker gets them in one message."""

# What a run that was killed has left is kept no longer than the longest load lasts.
_OLD_S = 2 * 24 * 3600.0


class BadFiles(Exception):
    """Files cannot be read or kept; the message is a sentence."""


def read(paths: Sequence[str]) -> dict[str, bytes]:
    """The content of each file, by its path as typed.

    Raises:
        BadFiles: a file cannot be read, or they are longer than TOTAL_LIMIT together.
    """
    contents: dict[str, bytes] = {}
    left = TOTAL_LIMIT
    for path in dict.fromkeys(paths):
        try:
            with Path(path).open("rb") as file:
                contents[path] = content = file.read(left + 1)
        except OSError as error:
            raise BadFiles(f"{path} cannot be read: {error.strerror}") from error
        left -= len(content)
        if left < 0:
            raise BadFiles(
                f"the files of this load are longer than the {TOTAL_LIMIT >> 20} MiB that a "
                f"cluster's workers are sent; {path} is one of them"
            )
    return contents


def own_folder() -> Path:
    """The folder of this user's runs on this machine, for nobody else's eyes.

    Raises:
        BadFiles: it is somebody else's, or cannot be made.
    """
    folder = Path(tempfile.gettempdir()) / f"trilane-cluster-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise BadFiles(f"{folder} cannot be made: {error.strerror}") from error
    # Somebody else may have made it before us, where everybody may write.
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise BadFiles(f"{folder} is not a folder of this user alone: remove it")
    return folder


def keep(folder: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    """Write the files below `folder`; where each lies, by its path as typed.

    Each keeps its name, in a folder of its own: what a file is may follow from how it ends.

    Raises:
        BadFiles: they cannot be written.
    """
    kept: dict[str, str] = {}
    try:
        folder.mkdir(mode=0o700)
        for number, (path, content) in enumerate(contents.items()):
            place = folder / str(number) / (Path(path).name or "file")
            place.parent.mkdir(mode=0o700)
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            kept[path] = str(place)
    except OSError as error:
        raise BadFiles(f"{folder} cannot be written: {error.strerror}") from error
    return kept


def claim(name: str) -> bool:
    """Whether nobody has claimed `name` on this machine before.

    Raises:
        BadFiles: that cannot be noted.
    """
    folder = own_folder() / "claims"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _clear(folder)
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise BadFiles(f"{folder} cannot be written: {error.strerror}") from error
    os.close(descriptor)
    return True


def _clear(folder: Path) -> None:
    before = time.time() - _OLD_S
    for old in folder.iterdir():
        # Another worker of this machine may remove it at the same time.
        try:
            if old.lstat().st_mtime < before:
                old.unlink()
        except FileNotFoundError:
            continue

"""Where state lives on disk, and how it is written: whole files or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trilane.lab.model.documents import Json
from trilane.lab.processes import proc

if TYPE_CHECKING:
    from trilane.lab.model.record import Record


class CannotWrite(OSError):
    """A file or folder of the state cannot be written; the message names it, and why."""

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name what could not be written; the system's own errors of a full disk name no file.

    Raises:
        CannotWrite: the system refused.
    """
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror, str(path)) from error


PRIVATE_FOLDER = 0o700
"""Of folders of runs: what was asked of a server, and what it answered, is for the user alone."""


def private(path: str, flags: int) -> int:
    """An opener for `open`: a file that is made is for the user alone."""
    return os.open(path, flags, 0o600)


def state_folder(override: Path | None = None) -> Path:
    """`--state`, else `$XDG_STATE_HOME/trilane`, else `~/.local/state/trilane`."""
    return _folder("XDG_STATE_HOME", ".local/state") if override is None else override


def cache_folder() -> Path:
    """Where what can be made again is kept: `$XDG_CACHE_HOME/trilane`."""
    return _folder("XDG_CACHE_HOME", ".cache")


def _folder(variable: str, in_home: str) -> Path:
    base = os.environ.get(variable)
    # The XDG specification: a relative path here is to be ignored.
    kept = Path(base) if base and Path(base).is_absolute() else Path.home() / in_home
    return kept / "trilane"


def now() -> str:
    """This second in UTC, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_folder(state: Path, kind: str) -> Path:
    """A fresh folder `<state>/runs/<time>-<kind>`."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    runs = state / "runs"
    with writing(runs):
        state.mkdir(parents=True, exist_ok=True)
        runs.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        for attempt in range(1000):
            folder = runs / (f"{stamp}-{kind}" + (f"-{attempt}" if attempt else ""))
            try:
                folder.mkdir(mode=PRIVATE_FOLDER)
            except FileExistsError:
                continue
            return folder
    raise FileExistsError(f"{runs}: too many runs in one second")


def write_text(path: Path, content: str) -> None:
    """Write a text file, atomically."""
    write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one.

    Raises:
        CannotWrite: the system refused.
    """
    with writing(path):
        _write(path, content)


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private. In a private folder they stay so; elsewhere what we write is
        # for the user like any other file of theirs.
        if path.parent.stat().st_mode & 0o077:
            temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that is the file `path`; others wait for it, in any process."""
    import fcntl  # noqa: PLC0415 - not on every system that can read a report

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # The file stays: removing it would take the lock from processes that wait for it.
        yield


def write_json(path: Path, value: Json | Record) -> None:
    """Write JSON, atomically."""
    import msgspec  # noqa: PLC0415 - `trilane doctor` says that it is missing

    write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def _umask() -> int:
    """The mode bits that new files do not get; umask(2) tells them only by changing them."""
    # The kernel tells it on Linux: a change, however short, is one for every thread.
    told = proc.umask(os.getpid())
    if told is not None:
        return told
    mask = os.umask(0)
    os.umask(mask)
    return mask

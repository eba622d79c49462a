"""Runs removed from a state folder: only what is surely a run folder, and none that still goes.

A run folder is a folder in `<state>/runs` with a manifest that can be read. Whatever else lies
there, links included, is somebody else's: it is named and left alone. The manifest goes last, so
that a folder whose removal was cut short is still known for what it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trilane.lab.model.documents import Json
from trilane.lab.storage import runs
from trilane.lab.storage.activity import LOCK, is_going
from trilane.lab.storage.journal import MANIFEST
from trilane.lab.storage.runs import BadRun

SCHEMA = "trilane.removal/1"
_GOING = "it is still running"


class NotRemoved(ValueError):
    """A folder is left as it is; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run folder, and the room that it takes."""

    folder: Path
    started_at: str
    """UTC, RFC 3339."""
    size_bytes: int

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def began(self) -> datetime:
        """When it began."""
        return datetime.fromisoformat(self.started_at)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a state folder may keep; None: any amount."""

    older_than: timedelta | None = None
    """Runs that began longer ago are removed."""
    keep: int | None = None
    """The number of runs that stay, the newest ones."""
    max_bytes: int | None = None
    """The room that runs take in all; the oldest are removed."""


@dataclass(frozen=True, slots=True)
class Left:
    """A folder that was not removed."""

    folder: str
    why: str


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed, or with a dry run would be, and what was not and why."""

    removed: Sequence[StoredRun]
    left: Sequence[Left]
    dry_run: bool

    def to_dict(self) -> Json:
        """As `trilane.removal/1`."""
        return {
            "schema": SCHEMA,
            "dry_run": self.dry_run,
            "removed": [
                {"folder": run.name, "started_at": run.started_at, "size_bytes": run.size_bytes}
                for run in self.removed
            ],
            "left": [{"folder": each.folder, "why": each.why} for each in self.left],
        }


def size_bytes(folder: Path) -> int:
    """The sizes of all files below a folder; links count as themselves."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += Path(place, name).lstat().st_size
            except OSError:
                # Removed meanwhile, as temporary files of a run are.
                continue
    return total


def named(text: str, state: Path) -> StoredRun:
    """The run folder of that name, or at that path in the state folder; never by its beginning.

    Raises:
        NotRemoved: it is no run folder, or not surely one.
    """
    place = _place(state)
    path = runs.path_of(text)
    if os.sep in text and os.path.realpath(path.parent) != os.path.realpath(place):
        raise NotRemoved(f"{text} is not a run folder in {place}")
    if path.name in {"", os.pardir} or not os.path.lexists(place / path.name):
        raise NotRemoved(f"there is no run {text!r} in {place}; they are in: trilane runs list")
    return _stored(place / path.name)


def beyond(limits: Limits, state: Path, now: datetime | None = None) -> Removal:
    """The runs that a state folder has beyond its limits, the oldest first; nothing is removed.

    Where one is beyond a limit, all that are older are: a small one does not outlive a newer one.

    Raises:
        NotRemoved: its runs lie elsewhere.
    """
    now = now or datetime.now(UTC)
    known, left = _known(state)
    beyond_any: list[StoredRun] = []
    kept, room, is_beyond = 0, 0, False
    for run in sorted(known, key=lambda each: (each.began, each.name), reverse=True):
        too_old = limits.older_than is not None and now - run.began > limits.older_than
        too_many = limits.keep is not None and kept >= limits.keep
        too_large = limits.max_bytes is not None and room + run.size_bytes > limits.max_bytes
        is_beyond = is_beyond or too_old or too_many or too_large
        if not is_beyond:
            kept, room = kept + 1, room + run.size_bytes
        elif is_going(run.folder):
            kept, room = kept + 1, room + run.size_bytes
            left.append(Left(run.name, _GOING))
        else:
            beyond_any.append(run)
    return Removal(beyond_any[::-1], left, dry_run=True)


def check(run: StoredRun) -> None:
    """Raise `NotRemoved` if a command still works on a run."""
    if is_going(run.folder):
        raise NotRemoved(f"{run.name} is not removed: {_GOING}")


def remove(run: StoredRun) -> None:
    """Remove a run folder.

    Raises:
        NotRemoved: a command works in it.
        OSError: the system refused.
    """
    check(run)
    with _held(run.folder):
        last = (MANIFEST, LOCK)
        for entry in list(os.scandir(run.folder)):
            if entry.name in last:
                continue
            if entry.is_dir(follow_symlinks=False):
                # Follows no link: what one leads to stays.
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
        for name in last:
            (run.folder / name).unlink(missing_ok=True)
        run.folder.rmdir()


def _place(state: Path) -> Path:
    place = state / "runs"
    if place.is_symlink():
        raise NotRemoved(f"{place} is a link: nothing that it leads to is removed")
    return place


def _known(state: Path) -> tuple[list[StoredRun], list[Left]]:
    """The run folders of a state folder, and what else lies there."""
    place = _place(state)
    known: list[StoredRun] = []
    left: list[Left] = []
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        try:
            known.append(_stored(path))
        except NotRemoved as error:
            left.append(Left(path.name, str(error)))
    return known, left


def _stored(folder: Path) -> StoredRun:
    by_hand = f"to remove it by hand: rm -r {shlex.quote(str(folder))}"
    if folder.is_symlink():
        raise NotRemoved(f"{folder} is a link, and what it leads to is left alone")
    if not folder.is_dir():
        raise NotRemoved(f"{folder} is not a run folder; {by_hand}")
    try:
        _check_files(folder)
        manifest = runs.read_manifest(folder)
        run = StoredRun(folder, manifest.started_at, size_bytes(folder))
        _ = run.began
    except NotRemoved:
        raise
    except (BadRun, ValueError) as error:
        raise NotRemoved(f"not surely a run folder: {error}; {by_hand}") from error
    except OSError as error:
        raise NotRemoved(f"cannot read {error.filename or folder}: {error.strerror}") from error
    return run


def _check_files(folder: Path) -> None:
    if (folder / MANIFEST).is_symlink():
        raise NotRemoved(f"{folder} is not surely a run folder: its {MANIFEST} is a link")
    if (folder / LOCK).is_dir():
        raise NotRemoved(f"{folder} is not surely a run folder: its {LOCK} is a folder")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep runs from going on in a folder while it is removed."""
    import fcntl  # noqa: PLC0415 - not on every system that can read a report

    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotRemoved(f"{folder.name} is not removed: {_GOING}") from error
        yield
    finally:
        os.close(lock)

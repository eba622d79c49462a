"""What an experiment leaves on disk while it runs, so that a crash loses at most one run.

`manifest.json`
    What was asked: written whole when it changes.
`runs/*.json`
    One `trilane.run/1` per run: written whole, before its line in the journal.
`samples.jsonl`
    The journal: one line per finished run, appended and synced. A line that a crash cut short is
    dropped when the journal is read; the run is made again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from trilane.lab.model.manifest import Manifest
from trilane.lab.model.record import Count, Record
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.storage import store
from trilane.lab.storage.activity import LOCK

MANIFEST = "manifest.json"
_JOURNAL = "samples.jsonl"
_MOMENT_S = 5.0
_AGAIN_S = 0.05


class Busy(RuntimeError):
    """Another process writes to this folder; the message names it."""


class BadJournal(ValueError):
    """The folder cannot be continued; the message says why."""


class Line(Record, frozen=True):
    """One finished run, at one point of the sweep."""

    point: Count
    """Number of the point, from 0."""
    sample: Sample
    """In the journal without its run, which lies in its own file."""

    @property
    def key(self) -> tuple[int, int, str, int, bool]:
        """What tells the run from all others: point, block, arm, slot, and whether it is again."""
        sample = self.sample
        return self.point, sample.block, sample.arm, sample.slot, sample.again


class Journal:
    """The folder of one experiment that runs, ran, or is to go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.logs = folder / "logs"

    def open(self, manifest: Manifest) -> None:
        """Begin: make the folders and write the manifest."""
        with store.writing(self.folder):
            # One of a version before may be for everybody.
            self.folder.chmod(store.PRIVATE_FOLDER)
            self.runs.mkdir(mode=store.PRIVATE_FOLDER, exist_ok=True)
            self.logs.mkdir(mode=store.PRIVATE_FOLDER, exist_ok=True)
        self.write_manifest(manifest)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        store.write_json(self.folder / MANIFEST, manifest)

    def append(self, line: Line) -> None:
        """Keep one finished run: its file first, so that no line points nowhere."""
        if line.sample.run is not None and line.sample.file is not None:
            store.write_json(self.folder / line.sample.file, line.sample.run)
        kept = replace(line, sample=replace(line.sample, run=None))
        path = self.folder / _JOURNAL
        with store.writing(path), open(path, "ab", opener=store.private) as file:
            file.write(msgspec.json.encode(kept) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> list[Line]:
        """Every finished run; what a crash cut short is cut off the file as well."""
        path = self.folder / _JOURNAL
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) != len(content):
            store.write_bytes(path, whole)
        return list(self._parsed(path, whole))

    def _parsed(self, path: Path, content: bytes) -> Iterator[Line]:
        for number, text in enumerate(content.splitlines(), 1):
            try:
                line = msgspec.json.decode(text, type=Line)
                if line.sample.file is not None:
                    run = msgspec.json.decode(
                        (self.folder / line.sample.file).read_bytes(), type=Run
                    )
                    line = replace(line, sample=replace(line.sample, run=run))
                yield line
            except (OSError, ValueError, RecursionError) as error:
                raise BadJournal(f"{path}:{number} cannot be read: {error!r}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from writing here; the lock ends with the process.

        Raises:
            Busy: another process has it for longer than a moment.
        """
        with open(self.folder / LOCK, "w", encoding="ascii", opener=store.private) as file:
            # A child of a process that was killed has the lock, too, until it has become the
            # program that it was to start.
            end = time.monotonic() + _MOMENT_S
            while not _locks(file):
                if time.monotonic() > end:
                    raise Busy(
                        f"{self.folder} is being written by another `trilane`; wait for "
                        "it, or type --new to start one beside it"
                    )
                time.sleep(_AGAIN_S)
            yield


def _locks(file: IO[str]) -> bool:
    """Lock a file, unless another has."""
    import fcntl  # noqa: PLC0415 - not on every system that can read a report

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

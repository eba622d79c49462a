"""An SQLite index of the run folders, for questions about many runs at once.

The folders are the truth. `open_index` compares the index with them by time and size of their
files and reads again what changed, so nothing has to be kept in step; a missing, damaged or older
index is made anew from the folders, and that is said. When the state folder cannot be written, the
index lives in memory for as long as the command.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trilane.lab.model.arm import ENGINE
from trilane.lab.model.comparison import JudgedArm
from trilane.lab.model.documents import Json, machine_id
from trilane.lab.storage import conditions, runs
from trilane.lab.storage.runs import BadRun, RunFolder

FILE = "index.sqlite"
# To be raised when the tables change, or what is derived for them (`conditions`, `_run_row`).
VERSION = 2
BROKEN = "broken"
_BUSY_S = 30.0
_SCHEMA = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    folder TEXT NOT NULL UNIQUE,      -- name under <state>/runs
    signature TEXT NOT NULL,          -- times and sizes of the files that were read
    kind TEXT, experiment TEXT, form TEXT, quick INTEGER,
    status TEXT NOT NULL,             -- running, interrupted, complete, failed, broken
    problem TEXT,                     -- why it is broken
    started_at TEXT, command TEXT, way_on TEXT,
    machine TEXT, machine_facts TEXT, -- id; JSON
    measure TEXT,                     -- what the ranking goes by
    validity TEXT, verdict TEXT
);
CREATE TABLE value (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    point REAL,                       -- NULL without a sweep
    arm TEXT NOT NULL, title TEXT NOT NULL, software TEXT,
    workload TEXT NOT NULL,           -- fingerprint
    validity TEXT NOT NULL,           -- of the arm
    measure TEXT NOT NULL, label TEXT NOT NULL, unit TEXT NOT NULL, better TEXT NOT NULL,
    median REAL, low REAL, high REAL
);
CREATE INDEX value_run ON value (run);
CREATE INDEX value_measure ON value (measure, arm);
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One run folder."""

    folder: str
    kind: str | None
    experiment: str | None
    form: str | None
    quick: bool
    status: str
    problem: str | None
    started_at: str | None
    command: str | None
    way_on: str | None
    machine: str | None
    measure: str | None
    validity: str | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """One measure of one arm at one point of one run, in `unit`."""

    folder: str
    started_at: str
    status: str
    machine: str
    machine_facts: Json
    experiment: str
    form: str | None
    quick: bool
    point: float | None
    arm: str
    title: str
    software: str | None
    workload: str
    validity: str
    measure: str
    label: str
    unit: str
    better: str
    median: float | None
    low: float | None
    high: float | None


class Index:
    """Questions about all runs of a state folder."""

    def __init__(self, connection: sqlite3.Connection, state: Path) -> None:
        self._connection = connection
        self._state = state

    def refresh(self, *, all_again: bool = False) -> int:
        """Read again the run folders that changed, or all; how many were read or are gone."""
        known = dict(self._connection.execute("SELECT folder, signature FROM run").fetchall())
        changed = []
        for folder in runs.folders(self._state):
            signature = runs.signature(folder)
            if known.pop(folder.name, None) != signature or all_again:
                # Reading takes long, so it is done before other commands are kept from writing.
                changed.append(_read(folder, signature))
        if changed or known:
            with _writing(self._connection):
                self._forget(known)
                self._put(changed)
        return len(changed) + len(known)

    def add(self, folder: Path) -> None:
        """Read one run folder."""
        read = _read(folder, runs.signature(folder))
        with _writing(self._connection):
            self._put([read])

    def runs(self, experiment: str | None = None) -> list[Row]:
        """All runs, or those of one experiment, the oldest first."""
        found = self._connection.execute(
            f"SELECT {', '.join(Row.__slots__)} FROM run"  # noqa: S608 - names of our own
            " WHERE ?1 IS NULL OR experiment = ?1 ORDER BY folder",
            (experiment,),
        )
        return [Row(**{**dict(row), "quick": bool(row["quick"])}) for row in found]

    def values(
        self,
        experiment: str,
        *,
        measure: str | None = None,
        form: str | None = None,
        arms: Sequence[str] = (),
        machine: str | None = None,
    ) -> list[Value]:
        """What the runs of an experiment reached, the oldest first."""
        found = self._connection.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM value JOIN run ON run.id = value.run"  # noqa: S608
            " WHERE experiment = ?1 AND (?2 IS NULL OR value.measure = ?2)"
            " AND (?3 IS NULL OR form = ?3) AND (?4 IS NULL OR machine = ?4)"
            " ORDER BY folder, value.rowid",
            (experiment, measure, form, machine),
        )
        return [
            Value(
                **{
                    **dict(row),
                    "quick": bool(row["quick"]),
                    "machine_facts": json.loads(row["machine_facts"]),
                }
            )
            for row in found
            if not arms or row["arm"] in arms
        ]

    def _forget(self, names: Iterable[str]) -> None:
        self._connection.executemany("DELETE FROM run WHERE folder = ?", [(n,) for n in names])

    def _put(self, read: Sequence[_Read]) -> None:
        self._forget(row["folder"] for row, _ in read)
        for row, values in read:
            identity = self._insert("run", row)
            for value in values:
                self._insert("value", {"run": identity, **value})

    def _insert(self, table: str, row: Json) -> int | None:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        return self._connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - names of our own
            tuple(row.values()),
        ).lastrowid


_OF_RUN = frozenset(
    {"folder", "started_at", "status", "machine", "machine_facts", "experiment", "form", "quick"}
)
_COLUMNS = tuple(
    f"{'run' if name in _OF_RUN else 'value'}.{name} AS {name}" for name in Value.__slots__
)


@contextlib.contextmanager
def open_index(state: Path, say: Say = lambda _message: None) -> Iterator[Index]:
    """The index of a state folder, in step with its run folders; `say` hears of repairs."""
    connection = _connect(state, say)
    try:
        index = Index(connection, state)
        try:
            index.refresh()
        except sqlite3.DatabaseError as error:
            connection.close()
            if _is_busy(error):
                raise
            with _alone(state):
                connection = _again(state, error, say)
            index = Index(connection, state)
            index.refresh()
        yield index
    finally:
        connection.close()


def rebuild(state: Path, say: Say = lambda _message: None) -> list[Row]:
    """Read every run folder again, whatever the index knew; the rows."""
    with open_index(state, say) as index:
        index.refresh(all_again=True)
        return index.runs()


def add_run(folder: Path) -> str | None:
    """Note a run folder in the index of its state folder; why that failed, or None.

    A run is never lost with this: the next `open_index` finds the folder.
    """
    state = folder.parent.parent
    try:
        with open_index(state) as index:
            index.add(folder)
    except (OSError, sqlite3.Error) as error:
        return f"the index {state / FILE} was not updated: {error}"
    return None


def _connect(state: Path, say: Say) -> sqlite3.Connection:
    if not _writable(state):
        say(f"{state} cannot be written: the index is kept in memory for this command")
        return _prepared(sqlite3.connect(":memory:"))
    # Alone: who opens a file that another command is about to replace has neither.
    with _alone(state):
        return _opened(state, say)


def _opened(state: Path, say: Say) -> sqlite3.Connection:
    file = state / FILE
    existed = file.exists()
    try:
        connection = _open(file)
    except sqlite3.DatabaseError as error:
        if _is_busy(error):
            raise
        return _again(state, error, say)
    version = _version(connection)
    if version == VERSION:
        return connection
    connection.close()
    return _again(state, f"it has version {version}, not {VERSION}" if existed else None, say)


def _again(state: Path, why: object, say: Say) -> sqlite3.Connection:
    """A new, empty index in the place of one that cannot be used; the caller is alone."""
    file = state / FILE
    for leftover in (file, *(file.with_name(FILE + end) for end in ("-wal", "-shm"))):
        leftover.unlink(missing_ok=True)
    connection = _prepared(_open(file))
    if why is not None:
        say(f"the index {file} could not be used ({why}): made anew from the run folders")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _open(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file, timeout=_BUSY_S)
    try:
        _use_wal(connection)
        # Derived data: it may lose its last entries in a power cut, but not its shape.
        connection.execute("PRAGMA synchronous = NORMAL")
        return _configured(connection)
    except BaseException:
        connection.close()
        raise


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not apply its own timeout to the switch."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _configured(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.isolation_level = None
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection = _configured(connection)
    with _writing(connection):
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    return connection


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Keep a second command from deleting the index that this one has just made."""
    deadline = time.monotonic() + _BUSY_S
    with (state / f"{FILE}.lock").open("w", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise sqlite3.OperationalError(
                        f"another command has been rebuilding {state / FILE} for {_BUSY_S:g} s"
                    ) from None
                time.sleep(0.05)
        yield


def _writable(state: Path) -> bool:
    try:
        state.mkdir(parents=True, exist_ok=True)
        with (state / f"{FILE}.lock").open("a", encoding="ascii"):
            return True
    except OSError:
        return False


_Read = tuple[Json, list[Json]]


def _read(folder: Path, signature: str) -> _Read:
    """The row of a run folder and those of its values."""
    try:
        run = runs.load(folder)
        row, values = _run_row(run), list(_value_rows(run))
    except BadRun as error:
        row, values = {"status": BROKEN, "problem": str(error)}, []
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration) as error:
        # The right schema with something missing: written by hand, or by a newer version.
        problem = f"{folder}: {type(error).__name__}: {error}"
        row, values = {"status": BROKEN, "problem": problem}, []
    return {**row, "folder": folder.name, "signature": signature}, values


def _run_row(run: RunFolder) -> Json:
    manifest = run.manifest
    row: Json = {
        "kind": run.kind,
        "experiment": run.experiment,
        "form": run.form,
        "quick": run.quick,
        "status": run.status,
        "started_at": manifest.started_at,
        "command": manifest.command,
        "machine": machine_id(run.machine),
        "machine_facts": json.dumps(run.machine, ensure_ascii=False, default=str),
    }
    if run.status != "complete":
        row["way_on"] = manifest.way_on
    if run.result is not None:
        points = run.points
        if points:
            row["measure"] = points[0].comparison.ranking.measure
        row["validity"] = run.result.validity.verdict
        row["verdict"] = run.result.verdict
    return row


def _value_rows(run: RunFolder) -> Iterator[Json]:
    for point in run.points:
        comparison = point.comparison
        for arm in comparison.arms:
            workload = conditions.workload(run, comparison, arm)
            common = {
                "point": point.value,
                "arm": arm.name,
                "title": arm.title,
                "software": _software(arm),
                "workload": conditions.fingerprint(workload),
                "validity": arm.validity.verdict,
            }
            for measure in comparison.measures:
                summary = arm.summary.get(measure.name)
                if summary is None or summary.median is None:
                    continue
                yield {
                    **common,
                    "measure": measure.name,
                    "label": measure.label,
                    "unit": measure.unit,
                    "better": measure.better,
                    "median": summary.median,
                    "low": summary.low,
                    "high": summary.high,
                }


def _software(arm: JudgedArm) -> str:
    """Client and version of an arm, such as `requests 2.32.5` or `trilane 0.1.0 (0123abc)`."""
    if arm.library_version and arm.client != ENGINE:
        return f"{arm.client} {arm.library_version}"
    engine = next((sample.run.trilane for sample in arm.samples if sample.run), None)
    if engine is None:
        return arm.client
    revision = f" ({engine.revision[:7]})" if engine.revision else ""
    return f"trilane {engine.version}{revision}"

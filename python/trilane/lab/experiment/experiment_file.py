"""Experiment files: TOML in, `Experiment` out, errors with file, line and key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from trilane.lab.experiment import places
from trilane.lab.experiment.bad_experiment import BadExperiment, BadKey, Key
from trilane.lab.experiment.experiment import SCHEMA, Experiment, Machines, Source
from trilane.lab.experiment.experiment_tables import (
    ExperimentTable,
    FormTable,
    MatrixTable,
    SweepTable,
    WorkloadTable,
)
from trilane.lab.experiment.form import Answer, Expect, Form, Published, Quick, Stats, Sweep
from trilane.lab.experiment.matrix import expand
from trilane.lab.experiment.toml_document import Document, UnreadableToml, convert
from trilane.lab.experiment.vocabulary import SWEEPS
from trilane.lab.experiment.words import meant
from trilane.lab.experiment.workload import ArmSpec, Number, Workload, body_of, told_apart
from trilane.lab.experiment.written import Rate, Time

_KINDS = {"rtt": Time, "network": str}


def read(path: Path) -> Experiment:
    """Read an experiment file; BadExperiment names file, line and key."""
    return parse(path.read_bytes(), path)


def parse(content: bytes, path: Path) -> Experiment:
    """The experiment in the content of the file `path`."""
    try:
        document = Document.parse(content)
    except UnreadableToml as error:
        raise BadExperiment(error.problem, where=f"{_shown(path)}:{error.line}") from None
    # Where in the file an arm of a form stands, because a matrix makes several arms.
    origins: dict[Key, Key] = {}
    try:
        return _experiment(document, path, origins)
    except BadKey as error:
        raise _placed(error, document, path, origins) from None


def files(folders: Sequence[Path]) -> dict[str, Path]:
    """Experiment files by name; of two with one name that of the earlier folder."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def find(name: str, folders: Sequence[Path] | None = None) -> Experiment:
    """The experiment `name` from the first of the folders that has it.

    By default these are `experiments` in the current folder, then those that ship with Trilane.

    Raises:
        BadExperiment: none has it, or it is bad; with the nearest name, or file, line and key.
    """
    folders = places.experiments() if folders is None else folders
    known = files(folders)
    if name in known:
        return read(known[name])
    if not known:
        where = ", ".join(map(str, folders)) or "any folder named experiments"
        raise BadExperiment(f"there is no experiment in {where}")
    raise BadExperiment(f"there is no experiment {name!r}{meant(name, known)}")


def placed(problem: str, key: Key, value: str, experiment: Experiment) -> BadExperiment:
    """The error on a key of an experiment, with file and line where it is still what its file says.

    `value` is what is wrong, for keys such as the `client` of a matrix, which has several.
    """
    unplaced = BadExperiment(problem, key)
    origins: dict[Key, Key] = {}
    if experiment.path is None:
        return unplaced
    try:
        document = Document.parse(experiment.path.read_bytes())
        if _experiment(document, experiment.path, origins) != experiment:
            return unplaced
    except (OSError, ValueError):
        return unplaced
    found = document.at(_in_file(key, origins, document.lines))
    if isinstance(found, list) and value in found:
        unplaced = BadExperiment(problem, (*key, found.index(value)))
    return _placed(unplaced, document, experiment.path, origins)


def _placed(
    error: BadKey, document: Document, path: Path, origins: dict[Key, Key]
) -> BadExperiment:
    """The error with its file, line and key as the file has them."""
    key = _in_file(error.key, origins, document.lines)
    return BadExperiment(error.problem, key, f"{_shown(path)}:{document.line(key)}")


def _shown(path: Path) -> Path:
    """As people would write it here: `experiments/bookstore.toml`."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _in_file(key: Key, origins: dict[Key, Key], lines: dict[Key, int]) -> Key:
    """The key as the file has it: arms come from a matrix, some of their values from the form."""
    for length in range(len(key), 0, -1):
        if key[:length] in origins:
            key = origins[key[:length]] + key[length:]
            break
    of_form = (*key[:2], *key[-1:])
    return of_form if key not in lines and of_form in lines else key


def _experiment(document: Document, path: Path, origins: dict[Key, Key]) -> Experiment:
    table = convert(document.values, ExperimentTable)
    if table.schema != SCHEMA:
        problem = f"is {table.schema!r}, but this trilane reads {SCHEMA!r}"
        raise BadExperiment(problem, ("schema",))
    if table.name != path.stem:
        problem = f"is {table.name!r}, but the file is {path.name}: make them agree"
        raise BadExperiment(problem, ("name",))
    told = _said(table) | {
        "source": None if table.source is None else Source(**_said(table.source)),
        "cluster": None if table.cluster is None else Machines(**_said(table.cluster)),
        "forms": {
            name: _form(name, form, ("forms", name), origins) for name, form in table.forms.items()
        },
    }
    del told["schema"]
    return Experiment(path=path, **told)


def _form(name: str, table: FormTable, key: Key, origins: dict[Key, Key]) -> Form:
    sweep = table.sweep
    # What the values of the sweep are.
    kind: Any = _KINDS.get(sweep.key if sweep is not None else "", Number)

    def rows(part: str) -> list[dict[str, Any]]:
        found = enumerate(getattr(table, part))
        return [_swept(row, "at", kind, (*key, part, index)) for index, row in found]

    workload = _workload(table.workload, (*key, "workload"))
    told = _said(table) | {
        "stats": Stats(**_said(table.stats)),
        "workload": workload,
        "arms": _arms(table, workload, kind, key, origins),
        "sweep": None if sweep is None else _sweep(sweep, kind, (*key, "sweep")),
        "published": tuple(Published(**row) for row in rows("published")),
        "expect": tuple(Expect(**row) for row in rows("expect")),
        "answer": None if table.answer is None else Answer(**_said(table.answer)),
        "quick": None
        if table.quick is None
        else Quick(**_swept(table.quick, "values", kind, (*key, "quick"))),
    }
    # These are the arms'.
    for part in ("server", "network", "matrix"):
        told.pop(part, None)
    return Form(name=name, **told)


def _said(table: Struct) -> dict[str, Any]:
    """What a table says, by the names that the experiment has for it."""
    told = {name: value for name, value in asdict(table).items() if value is not None}
    return {name: _number(value) for name, value in told.items()}


def _number(value: Any) -> Any:
    """A value, with what was written as a time or a rate as its number."""
    return float(value) if isinstance(value, Time | Rate) else value


def _swept(table: Struct, part: str, kind: Any, key: Key) -> dict[str, Any]:
    """What a table says, with `part` as values of the sweep, which are of this kind."""
    told = _said(table)
    name = (*key, part)
    if isinstance(values := told.get(part), tuple):
        told[part] = tuple(
            _number(convert(value, kind, (*name, index))) for index, value in enumerate(values)
        )
    elif values is not None:
        told[part] = _number(convert(values, kind, name))
    return told


def _workload(table: WorkloadTable, key: Key) -> Workload:
    size = table.body_bytes
    if table.body is not None and size is not None:
        problem = "there is a body already: leave one of the two out"
        raise BadExperiment(problem, (*key, "body_bytes"))
    if table.body is not None and table.body_file:
        problem = "there is a body already: give its size as body_bytes"
        raise BadExperiment(problem, (*key, "body_file"))
    told = _said(table)
    for part in ("body", "body_bytes", "warmup"):
        told.pop(part, None)
    if table.kind != "urls":
        told.setdefault("paths", ())
    if table.body_file:
        told["file_bytes"] = size
    elif size is not None:
        told["body"] = body_of(size, table.content_type)
    elif table.body is not None:
        told["body"] = table.body.encode()
    # Requests with a count, a time with a duration.
    if table.warmup is not None and table.duration_s is None:
        told["warmup_requests"] = convert(table.warmup, int, (*key, "warmup"))
    elif table.warmup is not None:
        told["warmup_s"] = float(convert(table.warmup, Time, (*key, "warmup")))
    return Workload(**told)


def _arms(
    table: FormTable, workload: Workload, kind: Any, key: Key, origins: dict[Key, Key]
) -> tuple[ArmSpec, ...]:
    arms: list[ArmSpec] = []

    def keep(arm: ArmSpec, row: Key) -> None:
        origins[*key, "arms", len(arms)] = row
        arms.append(arm)

    of_form: dict[str, Any] = {"server": table.server, "network": table.network or ""}
    for index, row in enumerate(table.arms):
        where = (*key, "arms", index)
        keep(workload.arm(**of_form | _swept(row, "at", kind, where)), where)
    matrices: dict[Key, MatrixTable] = {}
    if isinstance(table.matrix, tuple):
        matrices = {(*key, "matrix", index): row for index, row in enumerate(table.matrix)}
    elif table.matrix is not None:
        matrices = {(*key, "matrix"): table.matrix}
    for where, matrix in matrices.items():
        for arm in expand(matrix, of_form | _swept(matrix, "at", kind, where), workload, where):
            keep(arm, where)
    return told_apart(arms)


def _sweep(table: SweepTable, kind: Any, key: Key) -> Sweep:
    if table.key not in SWEEPS:
        problem = f"{table.key!r} cannot be swept{meant(table.key, SWEEPS)}"
        raise BadExperiment(problem, (*key, "key"))
    return Sweep(**{"unit": SWEEPS[table.key]} | _swept(table, "values", kind, key))

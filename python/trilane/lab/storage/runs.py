"""Runs on disk: found by folder, name, prefix, `latest` or experiment, and read with clear errors.

A run folder holds `manifest.json`, and once there is something to judge `result.json`
(`trilane.lab/1`: one comparison per point of the sweep), which refers to the runs in `runs/`. Races
of versions before left a `comparison.json` (`trilane.comparison/1`) instead; it is read as the
result of an experiment.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import structs

from trilane import hiding
from trilane.lab.model import comparison, lab
from trilane.lab.model import manifest as kept
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.documents import Json, machine_id
from trilane.lab.model.lab import LabResult, Point
from trilane.lab.model.manifest import Kind, Manifest, Status
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.storage import activity, store
from trilane.lab.storage.journal import MANIFEST

_RESULT = "result.json"
COMPARISON = "comparison.json"
"""The result of a race of a version before."""
_T = TypeVar("_T", bound=LabResult | Comparison | Manifest)
# `<date>-<time>-` before the rest of a run folder's name.
_STAMP = len("20261120-104138-")
_SHOWN = 5


class BadRun(ValueError):
    """There is no such run, or it cannot be read; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder, read."""

    folder: Path
    manifest: Manifest
    result: LabResult | None
    """None when nothing was judged yet."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def kind(self) -> Kind:
        """`race` or `lab`."""
        return self.manifest.kind

    @property
    def status(self) -> Status:
        """`running`, `interrupted`, `complete` or `failed`."""
        return self.manifest.status

    @property
    def experiment(self) -> str:
        """Name of the experiment; `race` for a race."""
        return self.manifest.name

    @property
    def form(self) -> str | None:
        """Form of the experiment; None for a race."""
        return self.manifest.shown_form

    @property
    def quick(self) -> bool:
        """Whether `--quick` cut the experiment down."""
        return self.manifest.quick

    @property
    def machine(self) -> Json:
        """Facts about the machine it ran on."""
        return dict(self.manifest.machine)

    @property
    def judged(self) -> LabResult:
        """The result of a run that must have one; raises `BadRun`."""
        if self.result is None:
            way_on = self.manifest.way_on
            raise BadRun(f"{self.name} has no result: it is {self.status}; {way_on}")
        return self.result

    @property
    def points(self) -> list[Point]:
        """The comparisons: one per point of the sweep, none before a result."""
        return [] if self.result is None else self.result.points


def folders(state: Path) -> list[Path]:
    """Every folder under `<state>/runs`, the newest first."""
    runs = state / "runs"
    if not runs.is_dir():
        return []
    found = [folder for folder in runs.iterdir() if folder.is_dir()]
    return sorted(found, key=lambda folder: folder.name, reverse=True)


def path_of(text: str) -> Path:
    """What was typed, as a path; `~name` without such a user is a name like any other."""
    with contextlib.suppress(RuntimeError):
        return Path(text).expanduser()
    return Path(text)


def find(text: str, state: Path) -> Path:
    """The run folder that `text` means.

    In this order: a path to a run folder or to a file in one; `latest`, the newest run with a
    result; the name of a run; an experiment (`bookstore`, or `bookstore-fair` for one form), its
    latest complete run; the beginning of one run's name.

    Raises:
        BadRun: no run folder is meant, or several are.
    """
    path = path_of(text)
    if _is_file(path) and _is_file(path.parent / MANIFEST):
        path = path.parent
    if _is_file(path / MANIFEST):
        return path
    if len(path.parts) > 1:
        if path.is_dir():
            # It says what is wrong with it: nothing there, or nothing that may be read.
            read_manifest(path)
        raise BadRun(f"{text} is not a run folder: there is no such folder")
    known = folders(state)
    if text == "latest":
        newest = next((folder for folder in known if _has_result(folder)), None)
        if newest is None:
            raise BadRun(f"there is no run with a result in {state / 'runs'}: {_first_run()}")
        return newest
    exact = next((folder for folder in known if folder.name == text), None)
    if exact is not None:
        return exact
    return _of_experiment(text, known) or _by_prefix(text, known, state)


def took(state: Path, machine: str) -> dict[str, list[float]]:
    """How many seconds complete runs took on a machine, by the fingerprints of their plans."""
    found: dict[str, list[float]] = {}
    for folder in folders(state):
        try:
            manifest = read_manifest(folder)
        except BadRun:
            continue
        if manifest.status != "complete" or machine_id(manifest.machine) != machine:
            continue
        if manifest.fingerprint is not None and manifest.took_s is not None:
            found.setdefault(manifest.fingerprint, []).append(manifest.took_s)
    return found


def write_result(folder: Path, result: LabResult) -> None:
    """Keep the result of the runs that lie in a folder; it refers to them by their files."""
    referring = result.with_samples(lambda sample: structs.replace(sample, run=None))
    store.write_json(folder / _RESULT, referring)


def _reading(folder: Path) -> Callable[[Sample], Sample]:
    """What gives a sample of a result in a folder its run, for `with_samples`.

    What it gives raises `BadRun` where the run is gone or cannot be read.
    """
    known: dict[str, Run] = {}

    def read(sample: Sample) -> Sample:
        if sample.file is None:
            return sample
        if sample.file not in known:
            file = folder / sample.file
            try:
                known[sample.file] = msgspec.json.decode(file.read_bytes(), type=Run)
            except OSError as error:
                raise BadRun(
                    f"the result in {folder} refers to {file}, which cannot be read: "
                    f"{error.strerror}"
                ) from error
            except (ValueError, RecursionError) as error:
                raise BadRun(f"{file} is damaged: {error}") from error
        return structs.replace(sample, run=known[sample.file])

    return read


def load(folder: Path) -> RunFolder:
    """Read a run folder; its result may be missing."""
    manifest = read_manifest(folder)
    result = None
    if (folder / _RESULT).exists():
        result = _result(folder / _RESULT, lab.SCHEMA, LabResult)
    elif (folder / COMPARISON).exists():
        result = LabResult.of_race(_result(folder / COMPARISON, comparison.SCHEMA, Comparison))
    if result is not None:
        result = _by_names_of_now(_without_secrets(result), manifest)
        result = result.with_samples(_reading(folder))
    return RunFolder(folder, manifest, result)


def _without_secrets(result: LabResult) -> LabResult:
    """The result without what versions before kept of what was typed."""

    def hidden(made: Comparison) -> Comparison:
        url, command = hiding.text(made.url), hiding.text(made.command)
        return structs.replace(made, url=url, command=command)

    result = structs.replace(result, command=hiding.text(result.command))
    return result.with_comparisons(hidden)


def _by_names_of_now(result: LabResult, manifest: Manifest) -> LabResult:
    """The result with its clients called as they are now."""
    clients = manifest.clients_now
    if not clients:
        return result

    def renamed(arm: JudgedArm) -> JudgedArm:
        return structs.replace(arm, client=clients.get(arm.client, arm.client))

    return result.with_comparisons(lambda comparison: comparison.with_arms(renamed))


def _result(file: Path, schema: str, kind: type[_T]) -> _T:
    document = _read(file)
    if document.get("schema") != schema:
        raise BadRun(f"{file} has schema {document.get('schema')!r}, not {schema}")
    return _converted(document, file, schema, kind)


def load_judged(folder: Path) -> RunFolder:
    """Read a run folder that must have a result."""
    run = load(folder)
    _ = run.judged
    return run


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder; raises `BadRun`.

    It is `interrupted` where it was `running` and nobody works on it any more: who is killed, or
    has no room on the disk, cannot say so.
    """
    manifest = written_manifest(folder)
    if manifest.status == "running" and not activity.is_going(folder):
        return structs.replace(manifest, status="interrupted")
    return manifest


def written_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder as it was written; raises `BadRun`."""
    file = folder / MANIFEST
    try:
        if not file.is_file():
            raise BadRun(f"{folder} is not a run folder: it holds no {MANIFEST}")
    except OSError as error:
        raise BadRun(f"cannot read {file}: {error.strerror}") from error
    document = _read(file)
    if document.get("schema") not in {kept.SCHEMA, kept.BEFORE}:
        raise BadRun(f"{file} has schema {document.get('schema')!r}, not {kept.SCHEMA}")
    if document.get("kind") not in get_args(Kind):
        kinds = " or ".join(get_args(Kind))
        raise BadRun(f"{file} is of kind {document.get('kind')!r}, not {kinds}")
    manifest = _converted(document, file, kept.SCHEMA, Manifest)
    # Versions before kept what was typed as it was.
    return structs.replace(manifest, command=hiding.text(manifest.command))


def signature(folder: Path) -> str:
    """Changes whenever the manifest or the result of a run folder is written."""
    parts = []
    for name in (MANIFEST, _RESULT, COMPARISON):
        try:
            found = (folder / name).stat()
        except OSError:
            continue
        parts.append(f"{name}:{found.st_mtime_ns}:{found.st_size}")
    return " ".join(parts)


def _has_result(folder: Path) -> bool:
    return any(_is_file(folder / name) for name in (_RESULT, COMPARISON))


def _is_file(path: Path) -> bool:
    """Whether it is a file; not where nobody but another user may look."""
    try:
        return path.is_file()
    except OSError:
        return False


def _of_experiment(text: str, known: list[Path]) -> Path | None:
    """The latest complete run of an experiment, or of one form of it."""
    unfinished: tuple[Path, Manifest] | None = None
    for folder in known:
        # What is damaged does not match.
        if not folder.name[_STAMP:].startswith(text):
            continue
        try:
            manifest = read_manifest(folder)
        except BadRun:
            continue
        if text not in (manifest.name, f"{manifest.name}-{manifest.shown_form}"):
            continue
        if manifest.status == "complete" and _has_result(folder):
            return folder
        unfinished = unfinished or (folder, manifest)
    if unfinished is not None:
        folder, manifest = unfinished
        raise BadRun(
            f"no run of {text} is complete: the latest, {folder.name}, is "
            f"{manifest.status}; {manifest.way_on}"
        )
    return None


def _by_prefix(text: str, known: list[Path], state: Path) -> Path:
    matching = [folder for folder in known if text and folder.name.startswith(text)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        shown = ", ".join(folder.name for folder in matching[:_SHOWN])
        more = f" and {len(matching) - _SHOWN} more" if len(matching) > _SHOWN else ""
        raise BadRun(f"{text!r} begins the names of {len(matching)} runs: {shown}{more}")
    if not known:
        raise BadRun(f"there is no run {text!r}: {state / 'runs'} is empty; {_first_run()}")
    shown = ", ".join(folder.name for folder in known[:_SHOWN])
    raise BadRun(
        f"{text!r} names no run folder, no run in {state / 'runs'} (the beginning will do) and "
        f"no experiment that has run; the latest are: {shown}"
    )


def _first_run() -> str:
    return "make one with: trilane race"


def _read(file: Path) -> Json:
    """The JSON object in a file; raises `BadRun`."""
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRun(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise BadRun(f"{file} is damaged: it holds no JSON object")
    return value


def _converted(document: Json, file: Path, schema: str, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise BadRun(f"{file} is not a {schema} of this version: {error}") from error

"""Runs on disk: found by folder, name, prefix, `latest` or experiment, and read with clear errors.

A run folder holds `manifest.json`, and once there is something to judge `result.json` (kind lab,
`trilane.lab/1`: one comparison per point of the sweep) or `comparison.json` (kind race), which
refer to the runs in `runs/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from trilane.lab.keeping import store
from trilane.lab.model import comparison, lab
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult, Point
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = "trilane.manifest/1"
_RESULTS: dict[str, tuple[str, str, type[LabResult | Comparison]]] = {
    "lab": ("result.json", lab.SCHEMA, LabResult),
    "race": ("comparison.json", comparison.SCHEMA, Comparison),
}
# `<date>-<time>-` before the rest of a run folder's name.
_STAMP = len("20261120-104138-")
_SHOWN = 5


class BadRun(ValueError):
    """There is no such run, or it cannot be read; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder, read."""

    folder: Path
    manifest: Json
    result: LabResult | Comparison | None
    """None when nothing was judged yet."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def kind(self) -> str:
        """`race` or `lab`."""
        return str(self.manifest["kind"])

    @property
    def status(self) -> str:
        """`running`, `interrupted`, `complete` or `failed`."""
        return str(self.manifest["status"])

    @property
    def experiment(self) -> str:
        """Name of the experiment; `race` for a race."""
        return experiment_name(self.manifest)

    @property
    def form(self) -> str | None:
        """Form of the experiment; None for a race."""
        form = self.manifest.get("form")
        return None if form is None else str(form)

    @property
    def quick(self) -> bool:
        """Whether `--quick` cut the experiment down."""
        return bool(self.manifest.get("quick"))

    @property
    def machine(self) -> Json:
        """Facts about the machine it ran on."""
        return dict(self.manifest.get("machine") or {})

    @property
    def judged(self) -> LabResult | Comparison:
        """The result of a run that must have one; raises `BadRun`."""
        if self.result is None:
            raise BadRun(f"{self.name} has no result: it is {self.status}; {way_on(self.manifest)}")
        return self.result

    @property
    def points(self) -> list[Point]:
        """The comparisons: one per point of the sweep, one for a race, none before a result."""
        if self.result is None:
            return []
        if isinstance(self.result, Comparison):
            return [Point(value=None, comparison=self.result)]
        return self.result.points


def experiment_name(manifest: Json) -> str:
    """What a run is a run of."""
    if manifest["kind"] == "race":
        return "race"
    experiment = manifest.get("experiment")
    return str(experiment["name"] if isinstance(experiment, dict) else experiment)


def folders(state: Path) -> list[Path]:
    """Every folder under `<state>/runs`, the newest first."""
    runs = state / "runs"
    if not runs.is_dir():
        return []
    found = [folder for folder in runs.iterdir() if folder.is_dir()]
    return sorted(found, key=lambda folder: folder.name, reverse=True)


def find(text: str, state: Path) -> Path:
    """The run folder that `text` means.

    In this order: a path to a run folder or to a file in one; `latest`, the newest run with a
    result; the name of a run; an experiment (`bookstore`, or `bookstore-fair` for one form), its
    latest complete run; the beginning of one run's name.
    """
    path = Path(text).expanduser()
    if path.is_file() and (path.parent / MANIFEST).is_file():
        path = path.parent
    if (path / MANIFEST).is_file():
        return path
    if len(path.parts) > 1:
        why = f"it holds no {MANIFEST}" if path.is_dir() else "there is no such folder"
        raise BadRun(f"{text} is no run folder: {why}")
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


def write_result(folder: Path, result: LabResult | Comparison) -> None:
    """Keep the result of the runs that lie in a folder; it refers to them by their files."""
    name = next(name for name, _, kind in _RESULTS.values() if isinstance(result, kind))
    referring = result.with_samples(lambda sample: structs.replace(sample, run=None))
    store.write_json(folder / name, referring)


def reading(folder: Path) -> Callable[[Sample], Sample]:
    """What gives a sample of a result in a folder its run, for `with_samples`.

    Raises `BadRun` where the run is gone or cannot be read.
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
            except ValueError as error:
                raise BadRun(f"{file} is damaged: {error}") from error
        return structs.replace(sample, run=known[sample.file])

    return read


def load(folder: Path) -> RunFolder:
    """Read a run folder; its result may be missing."""
    manifest = read_manifest(folder)
    name, schema, kind = _RESULTS[manifest["kind"]]
    file = folder / name
    if not file.exists():
        return RunFolder(folder, manifest, None)
    document = _read(file)
    if document.get("schema") != schema:
        raise BadRun(f"{file} has schema {document.get('schema')!r}, not {schema}")
    try:
        result = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise BadRun(f"{file} is not a {schema} of this version: {error}") from error
    return RunFolder(folder, manifest, result.with_samples(reading(folder)))


def load_judged(folder: Path) -> RunFolder:
    """Read a run folder that must have a result."""
    run = load(folder)
    _ = run.judged
    return run


def read_manifest(folder: Path) -> Json:
    """The manifest of a run folder."""
    file = folder / MANIFEST
    if not file.is_file():
        raise BadRun(f"{folder} is no run folder: it holds no {MANIFEST}")
    manifest = _read(file)
    if manifest.get("schema") != MANIFEST_SCHEMA:
        raise BadRun(f"{file} has schema {manifest.get('schema')!r}, not {MANIFEST_SCHEMA}")
    if manifest.get("kind") not in _RESULTS:
        raise BadRun(f"{file} is of kind {manifest.get('kind')!r}, not {' or '.join(_RESULTS)}")
    if "status" not in manifest:
        raise BadRun(f"{file} does not say its status")
    return manifest


def way_on(manifest: Json) -> str:
    """What to type for a run that did not end: go on with it, or make it again."""
    command = str(manifest.get("command") or "trilane race")
    if manifest["kind"] == "lab":
        # Typed again, the command finds what it began, unless it was told to begin anew.
        words = [word for word in command.split(" ") if word != "--new"]
        return f"to go on with it: {' '.join(words)}"
    return f"to make it again: {command}"


def signature(folder: Path) -> str:
    """Changes whenever the manifest or the result of a run folder is written."""
    parts = []
    for name in (MANIFEST, *(name for name, *_ in _RESULTS.values())):
        try:
            found = (folder / name).stat()
        except OSError:
            continue
        parts.append(f"{name}:{found.st_mtime_ns}:{found.st_size}")
    return " ".join(parts)


def _has_result(folder: Path) -> bool:
    return any((folder / name).is_file() for name, *_ in _RESULTS.values())


def _of_experiment(text: str, known: list[Path]) -> Path | None:
    """The latest complete run of an experiment, or of one form of it."""
    unfinished: Path | None = None
    for folder, manifest in _manifests(known, text):
        name, form = experiment_name(manifest), manifest.get("form")
        if text not in (name, f"{name}-{form}"):
            continue
        if manifest["status"] == "complete" and _has_result(folder):
            return folder
        unfinished = unfinished or folder
    if unfinished is not None:
        raise BadRun(
            f"no run of {text} is complete: the latest, {unfinished.name}, is "
            f"{read_manifest(unfinished)['status']}; {way_on(read_manifest(unfinished))}"
        )
    return None


def _manifests(known: list[Path], text: str) -> Iterator[tuple[Path, Json]]:
    """Manifests of the folders whose name has `text` after the time; damaged ones are no match."""
    for folder in known:
        if not folder.name[_STAMP:].startswith(text):
            continue
        try:
            yield folder, read_manifest(folder)
        except BadRun:
            continue


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
        f"{text!r} is no run folder, no name of a run in {state / 'runs'}, no beginning of one, "
        f"and no experiment that has run; the latest are: {shown}"
    )


def _first_run() -> str:
    return "make one with: trilane race"


def _read(file: Path) -> Json:
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRun(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise BadRun(f"{file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise BadRun(f"{file} is damaged: it holds no JSON object")
    return value

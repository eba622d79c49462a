"""Run folders made up from synthetic races, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from synthetic import labs, races
from trilane.lab import race as lab_race
from trilane.lab.analysis import paired
from trilane.lab.analysis.paired import Observed
from trilane.lab.model.lab import LabResult, Question
from trilane.lab.model.manifest import SCHEMA, Kind, Manifest, Status
from trilane.lab.model.revision import MeasuredRevision
from trilane.lab.model.sample import Sample
from trilane.lab.storage import runs
from trilane.lab.storage.store import write_json

MACHINE = {"cpu": "Test CPU", "cpus_usable": 2, "kernel": "Linux 6.1.0", "pinning": "client 1"}


def race(
    state: Path,
    stamp: str,
    factors: dict[str, float],
    *,
    status: Status = "complete",
    machine: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A race's folder; `stamp` is the time in its name, such as `20261120-100000`."""
    machine = MACHINE if machine is None else machine
    made = races.race(factors, machine=machine, started_at=iso(stamp), **changes)
    folder = state / "runs" / f"{stamp}-race"
    folder.mkdir(parents=True)
    asked = lab_race.experiment(lab_race.Flags(versions=list(factors)))
    manifest = _manifest(made, "race", status, machine)
    write_json(
        folder / "manifest.json",
        replace(manifest, experiment=asked.to_dict(), form=lab_race.FORM, blocks=made.blocks),
    )
    keep(folder, LabResult.of_race(paired.compare(made)))
    return folder


def race_before(state: Path, stamp: str, factors: dict[str, float]) -> Path:
    """The folder of a race as versions before left it: no experiment, a comparison as its result.

    What now is the arm's strategy was called by the model, sessions were not told, and the server
    by another name.
    """
    folder = race(state, stamp, factors)
    result = runs.load(folder).points[0].comparison
    arms = [replace(arm, strategy="closed", session=None, server="trilane") for arm in result.arms]
    then = replace(result, arms=arms).with_samples(lambda sample: replace(sample, run=None))
    write_json(folder / "comparison.json", then)
    (folder / "result.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for later in ("experiment", "form", "quick", "fingerprint"):
        del manifest[later]
    manifest |= {"url": result.url, "baseline": result.baseline, "order": result.plan.order}
    write_json(folder / "manifest.json", manifest)
    return folder


def lab(
    state: Path,
    stamp: str,
    factors: dict[str, float],
    *,
    experiment: str = "bookstore",
    form: str = "fair",
    points: tuple[float | None, ...] = (None,),
    status: Status = "complete",
    workload: dict[str, Any] | None = None,
    result: bool = True,
    revisions: Sequence[MeasuredRevision] = (),
    **changes: Any,
) -> Path:
    """A lab run's folder: the same race at every point."""
    made = races.race(factors, machine=MACHINE, started_at=iso(stamp), **changes)
    folder = state / "runs" / f"{stamp}-{experiment}-{form}"
    folder.mkdir(parents=True)
    manifest = _manifest(made, "lab", status, MACHINE)
    form_told = {"workload": workload or {"kind": "urls", "count": 3000}}
    manifest = replace(
        manifest,
        command=f"trilane lab run {experiment} --form {form} --new --seed 1",
        experiment={
            "name": experiment,
            "forms": {form: form_told},
            "revisions": msgspec.to_builtins(revisions),
        },
        form=form,
    )
    write_json(folder / "manifest.json", manifest)
    told = replace(
        labs.lab(*((value, made) for value in points)),
        experiment=Question(
            name=experiment,
            title=experiment,
            form=form,
            note=None,
            question=made.question,
            hypothesis=None,
            confounders=[],
            source=None,
            quick=False,
        ),
    )
    if result:
        keep(folder, told)
    return folder


def keep(folder: Path, result: LabResult) -> None:
    """Leave a result in a run folder, and the runs that it refers to."""
    (folder / "runs").mkdir()

    def write(sample: Sample) -> Sample:
        if sample.run is not None and sample.file is not None:
            write_json(folder / sample.file, sample.run)
        return sample

    result.with_samples(write)
    runs.write_result(folder, result)


def iso(stamp: str) -> str:
    """`20261120-100000` as `2026-11-20T10:00:00Z`."""
    date, time = stamp.split("-")
    return f"{date[:4]}-{date[4:6]}-{date[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}Z"


def _manifest(made: Observed, kind: Kind, status: Status, machine: dict[str, Any]) -> Manifest:
    return Manifest(
        schema=SCHEMA,
        kind=kind,
        status=status,
        command=made.command,
        started_at=made.started_at,
        seed=made.seed,
        machine=machine,
    )

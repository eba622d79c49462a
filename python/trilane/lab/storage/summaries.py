"""A summary of each run folder, kept in it, for questions about many runs at once.

`summary.json` repeats what the other files of a folder with a result say; whichever command first
needs it writes it. It says which files it was made of: where they changed, where it is missing or
damaged, or of another version of Trilane, it is made anew. So it can be deleted at any time, and
where the folder cannot be written, it is made each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from trilane.lab.model.arm import ENGINE
from trilane.lab.model.comparison import JudgedArm
from trilane.lab.model.documents import machine_id
from trilane.lab.model.summary import BROKEN, SCHEMA, ArmSummary, RunSummary
from trilane.lab.storage import conditions, runs, store
from trilane.lab.storage.runs import BadRun, RunFolder

FILE = "summary.json"


def summaries(state: Path, *, anew: bool = False) -> list[RunSummary]:
    """Of every run folder of a state folder, the oldest first; `anew` reads all of their files."""
    return [summary(folder, anew=anew) for folder in reversed(runs.folders(state))]


def summary(folder: Path, *, anew: bool = False) -> RunSummary:
    """Of one run folder, as it is kept or, where it is not of these files or `anew`, made anew."""
    made_of = runs.signature(folder)
    kept = None if anew else _kept(folder)
    if kept is not None and kept.made_of == made_of and kept.status != "running":
        # The folder may have another name by now.
        return structs.replace(kept, folder=folder.name)
    try:
        run = runs.load(folder)
        made = _made(run, made_of)
    except BadRun as error:
        return _broken(folder, made_of, str(error))
    except (AttributeError, TypeError, ValueError) as error:
        # An experiment in the manifest that is none: written by hand, or by a newer version.
        return _broken(folder, made_of, f"{folder}: {type(error).__name__}: {error}")
    # Without a result there is little to read, and whether a command is at work no file tells.
    if run.result is not None and run.status != "running":
        with contextlib.suppress(OSError):
            store.write_json(folder / FILE, made)
    return made


def _kept(folder: Path) -> RunSummary | None:
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=RunSummary)
    except (OSError, ValueError, RecursionError):
        return None


def _broken(folder: Path, made_of: str, problem: str) -> RunSummary:
    """Of a folder whose files cannot be read; it is not kept."""
    return RunSummary(
        schema=SCHEMA, made_of=made_of, folder=folder.name, status=BROKEN, problem=problem
    )


def _made(run: RunFolder, made_of: str) -> RunSummary:
    manifest, result = run.manifest, run.result
    first = run.points[0].comparison if run.points else None
    return RunSummary(
        schema=SCHEMA,
        made_of=made_of,
        folder=run.name,
        kind=run.kind,
        experiment=run.experiment,
        form=run.form,
        quick=run.quick,
        status=run.status,
        started_at=manifest.started_at,
        command=manifest.command,
        way_on=None if run.status == "complete" else manifest.way_on,
        machine=machine_id(run.machine),
        machine_facts=run.machine,
        measure=None if first is None else first.ranking.measure,
        validity=None if result is None else result.validity.verdict,
        verdict=None if result is None else result.verdict,
        measures=[] if first is None else first.measures,
        arms=list(_arms(run)),
    )


def _arms(run: RunFolder) -> Iterator[ArmSummary]:
    revisions = run.manifest.revisions
    for point in run.points:
        for arm in point.comparison.arms:
            workload = conditions.workload(run, point.comparison, arm)
            yield ArmSummary(
                point=point.value,
                arm=arm.name,
                title=arm.title,
                software=_software(arm),
                workload=conditions.fingerprint(workload),
                validity=arm.validity.verdict,
                reached={
                    name: reached
                    for name, reached in arm.summary.items()
                    if reached.median is not None
                },
                revision=revisions.get(arm.name),
            )


def _software(arm: JudgedArm) -> str:
    """Client and version of an arm, such as `requests 2.32.5` or `trilane 0.1.0 (0123abc)`."""
    if arm.library_version and arm.client != ENGINE:
        return f"{arm.client} {arm.library_version}"
    engine = next((sample.run.trilane for sample in arm.samples if sample.run), None)
    if engine is None:
        return arm.client
    revision = f" ({engine.revision[:7]})" if engine.revision else ""
    return f"trilane {engine.version}{revision}"

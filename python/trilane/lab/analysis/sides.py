"""One side of a comparison of runs: what `A` or `B` means, and its values.

A side is one run folder, several run folders, or several files of a load generator, ours
(`trilane load -o`) or another's, separated by commas. What counts as one value differs:

one folder
    A block: one value per block and arm, two of one block joined by their geometric mean.
several folders
    A folder: the median over its blocks. What changes from one session to the next (memory layout,
    neighbours, temperature) is then inside the interval, where it belongs.
several files
    A file: one run of a load generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trilane.lab.analysis import bodies, stats
from trilane.lab.analysis.bodies import Received
from trilane.lab.analysis.paired import value as value_in
from trilane.lab.analysis.stats import Floats
from trilane.lab.generators import reading
from trilane.lab.model.arm import TITLES
from trilane.lab.model.beside import Told
from trilane.lab.model.comparison import Comparison, Floor, Shown
from trilane.lab.model.contrast import Scope, Source, ValueUnit
from trilane.lab.model.documents import machine_id
from trilane.lab.model.measures import ELAPSED, MEASURES, RATE, Beside, Measure
from trilane.lab.model.record import SweepValue
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Reason, ReasonCode, Validity
from trilane.lab.storage import conditions, runs, singles
from trilane.lab.storage.conditions import Facts
from trilane.lab.storage.journal import MANIFEST
from trilane.lab.storage.runs import BadRun, RunFolder


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm at one point."""

    name: str
    title: str
    reasons: Sequence[Reason]
    """What speaks against its runs."""
    facts: dict[Scope, Facts]
    """What it was a measurement of; several values are joined by ` | `."""
    given: Sequence[Received]
    """What its runs were given."""
    tool: str
    """Which load generator measured it; `trilane` for run folders."""
    alone: bool
    """Whether its runs had an interface to themselves."""
    read: Callable[[Measure], list[Floats]]
    """For each folder (or for all files) the values of a measure, one per block; NaN: unknown."""


@dataclass(frozen=True, slots=True)
class Side:
    """A, or B."""

    label: str
    unit: ValueUnit
    sources: Sequence[Source]
    measures: Sequence[Shown]
    """In the order shown."""
    rank: str
    """Name of the measure that decides."""
    points: dict[SweepValue | None, dict[str, Cell]]
    floors: dict[tuple[SweepValue | None, str], Floor]
    """By point and measure: of the folders' A/A intervals that whose centre is farthest from 1."""
    margin: float
    machine: str | None
    """Machine id; None when it is unknown or not one."""
    cautions: Sequence[Reason]
    """What speaks against the side as a whole."""
    seed: int

    def values(self, cell: Cell, measure: Measure, control: Cell | None) -> Floats:
        """One value per unit; with `control`, divided by that arm's value in the same block."""
        groups = cell.read(measure)
        if control is not None:
            groups = [own / other for own, other in zip(groups, control.read(measure), strict=True)]
        usable = [group[np.isfinite(group) & (group > 0)] for group in groups]
        if self.unit == "run":
            return np.array([np.median(group) for group in usable if len(group)])
        return np.concatenate(usable)


def words_of(text: str) -> list[str]:
    """The words that a side names: a path that exists, or what stands between commas."""
    words = [text] if Path(text).exists() else [word for word in text.split(",") if word]
    if not words:
        raise BadRun(f"{text!r} names no run")
    return words


def load(text: str, state: Path) -> Side:
    """Read what a word of the command line names."""
    words = words_of(text)
    documents = [run_file(Path(word)) for word in words]
    files = [document for document in documents if document is not None]
    if files and len(files) == len(words):
        return _of_files(text, [Path(word) for word in words], files)
    if files:
        raise BadRun(f"{text}: run folders and files of single runs cannot be mixed on one side")
    found = [runs.load_judged(runs.find(word, state)) for word in words]
    doubled = next((run.name for run in found if found.count(run) > 1), None)
    if doubled:
        raise BadRun(f"{text} names {doubled} twice")
    return _of_folders(text, found)


def _of_folders(label: str, found: Sequence[RunFolder]) -> Side:
    for run in found:
        if not run.points:
            raise BadRun(f"{run.name} has no point with a result")
    comparisons = {
        run.name: {point.value: point.comparison for point in run.points} for run in found
    }
    first = found[0].points[0].comparison
    shared = [
        value
        for value in comparisons[found[0].name]
        if all(value in points for points in comparisons.values())
    ]
    points: dict[SweepValue | None, dict[str, Cell]] = {}
    floors: dict[tuple[SweepValue | None, str], Floor] = {}
    for value in shared:
        group = [(run, comparisons[run.name][value]) for run in found]
        names = [
            arm.name
            for arm in group[0][1].arms
            if all(any(a.name == arm.name for a in told.arms) for _, told in group)
        ]
        points[value] = {name: _cell(name, group) for name in names}
        for measure, floor in _floors([told for _, told in group]).items():
            floors[value, measure] = floor
    machines = {machine_id(run.machine) for run in found}
    return Side(
        label=label,
        unit="block" if len(found) == 1 else "run",
        sources=[_source(run) for run in found],
        measures=first.measures,
        rank=first.ranking.measure,
        points=points,
        floors=floors,
        margin=first.plan.margin,
        machine=machines.pop() if len(machines) == 1 else None,
        cautions=_cautions(found),
        seed=first.plan.seed,
    )


def _cell(name: str, group: Sequence[tuple[RunFolder, Comparison]]) -> Cell:
    arms = [next(arm for arm in told.arms if arm.name == name) for _, told in group]
    entries = [(run, told, arm) for (run, told), arm in zip(group, arms, strict=True)]
    facts: dict[Scope, Facts] = {
        "workload": _joined([conditions.workload(*entry) for entry in entries]),
        "machine": _joined([conditions.machine(*entry) for entry in entries]),
        "software": _joined([conditions.software(*entry) for entry in entries]),
    }
    return Cell(
        name=name,
        title=arms[0].title,
        reasons=_reasons([arm.validity for arm in arms]),
        facts=facts,
        given=[
            each
            for arm in arms
            for each in bodies.of_arm(arm, [s.run for s in arm.samples if s.run is not None])
        ],
        tool="trilane",
        alone=all(arm.is_alone for arm in arms),
        read=lambda measure: [_block_values(arm.samples, measure) for arm in arms],
    )


def _block_values(samples: Sequence[Sample], measure: Measure) -> Floats:
    """One value per block of an arm; NaN where unknown."""
    blocks: dict[int, list[float]] = {}
    for sample in samples:
        blocks.setdefault(sample.block, []).append(value_in(sample, measure))
    return np.array(
        [
            # A rate or a time of zero has no logarithm; like an unknown one it gives no value.
            np.exp(np.mean(np.log(values))) if all(value > 0 for value in values) else np.nan
            for _, values in sorted(blocks.items())
        ],
        dtype=np.float64,
    )


def _floors(comparisons: Sequence[Comparison]) -> dict[str, Floor]:
    """Of each measure the A/A interval whose centre is farthest from 1."""
    farthest: dict[str, Floor] = {}
    for told in comparisons:
        for name, floor in told.noise_floor.items():
            if not floor or min(floor.low, floor.high) <= 0:
                continue
            if name not in farthest or stats.beyond(floor.ratio, farthest[name].ratio):
                farthest[name] = floor
    return farthest


def _of_files(label: str, paths: Sequence[Path], files: Sequence[Run | Told]) -> Side:
    if len({path.resolve() for path in paths}) < len(paths):
        raise BadRun(f"{label} names a file twice")
    ours = [file for file in files if isinstance(file, Run)]
    others = [file for file in files if isinstance(file, Told)]
    kinds = dict.fromkeys("trilane load" if isinstance(file, Run) else file.tool for file in files)
    if len(kinds) > 1:
        raise BadRun(
            f"{label} mixes runs of {' and '.join(sorted(kinds))}: one side is one kind of run"
        )
    if len(files) < 2:
        raise BadRun(_single(label, *kinds))
    return _of_ours(label, paths, ours) if ours else _of_others(label, paths, others)


def _single(label: str, tool: str) -> str:
    """Why one file is not a side, and what to type."""
    why = (
        f"{label} is one run of {f'`{tool}`' if ' ' in tool else tool}: a single run has no "
        "interval, so nothing can be claimed from it. Make several, at least 4 on each side and in "
        "turns (one of A, one of B, …), and name them with commas"
    )
    example = "  trilane compare a1.json,a2.json,a3.json,a4.json b1.json,b2.json,b3.json,b4.json"
    if tool == "trilane load":
        return f"{why}, or let `trilane race` take care of it:\n{example}"
    return f"{why}, or set it beside files of load generators alone:\n{example}"


def _of_ours(label: str, paths: Sequence[Path], files: Sequence[Run]) -> Side:
    kinds = {str(run.target.version) for run in files}
    if len(kinds) > 1:
        raise BadRun(
            f"{label} mixes runs over {' and '.join(sorted(kinds))}: one side is one kind of run"
        )
    version = kinds.pop()
    cell = Cell(
        name="load",
        title=f"trilane load, {TITLES.get(version, version)}",
        reasons=_reasons([run.validity for run in files]),
        facts={
            "workload": _joined([_file_workload(run) for run in files]),
            "machine": {},
            "software": _joined([_file_software(run) for run in files]),
        },
        given=[bodies.of_run(run) for run in files],
        tool="trilane",
        alone=False,
        read=lambda measure: [_known(measure.read(run, Beside()) for run in files)],
    )
    measures = [
        measure.shown
        for measure in MEASURES
        # How long a run of a given length took says nothing.
        if measure is not ELAPSED or all(run.plan.duration_s is None for run in files)
    ]
    sources = [
        Source(name=path.name, path=str(path), kind="load", started_at=run.started_at)
        for path, run in zip(paths, files, strict=True)
    ]
    return _side_of_files(label, cell, measures, sources, [])


def _of_others(label: str, paths: Sequence[Path], files: Sequence[Told]) -> Side:
    """Runs of another load generator."""
    tool = files[0].tool
    cell = Cell(
        name="load",
        title=tool,
        reasons=_reasons([told.judged for told in files]),
        facts={"workload": {}, "machine": {}, "software": {}},
        given=[],
        tool=tool,
        alone=False,
        read=lambda measure: [_known(told.value(measure.name) for told in files)],
    )
    sources = [
        Source(
            name=path.name,
            path=str(path),
            kind="load" if told.tool == "trilane" else told.tool,
            started_at=None,
        )
        for path, told in zip(paths, files, strict=True)
    ]
    unknown = suspect(
        "unknown_workload",
        f"{tool} does not tell what it asked and how: whether the workloads are the same, and the "
        f"latencies mean the same, is for you to know (here {files[0].latency_runs})",
    )
    measures = [m.shown for m in MEASURES if all(told.tells(m.name) for told in files)]
    return _side_of_files(label, cell, measures, sources, [unknown])


def _known(values: Iterable[float | None]) -> Floats:
    """Values, NaN where unknown."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _side_of_files(
    label: str,
    cell: Cell,
    measures: Sequence[Shown],
    sources: Sequence[Source],
    cautions: Sequence[Reason],
) -> Side:
    return Side(
        label=label,
        unit="file",
        sources=sources,
        measures=measures,
        rank=RATE.name,
        points={None: {cell.name: cell}},
        floors={},
        margin=0.05,
        machine=None,
        cautions=[
            *cautions,
            suspect(
                "unknown_machine", "files of load generators do not say which machine they ran on"
            ),
        ],
        seed=1,
    )


def run_file(path: Path) -> Run | Told | None:
    """The run in a file, ours or another load generator's; None when it is something else.

    Raises:
        BadRun: it is a file, and none of a load generator that is known.
    """
    if not path.is_file() or (path.parent / MANIFEST).is_file():
        return None
    other = reading.read(path)
    return _own(path) if other is None else other


def _own(path: Path) -> Run:
    found = singles.load(path)
    if isinstance(found, Run):
        return found
    raise BadRun(f"{path} is the result of a search, which has no one run to compare")


def _file_workload(run: Run) -> Facts:
    plan, request = run.plan, run.plan.request
    return {
        "target": run.target.url,
        "version": run.target.version,
        "model": plan.model,
        "connections": plan.connections,
        "streams": plan.streams,
        "threads": plan.threads,
        "rate per s": plan.rate_per_s,
        "requests": plan.requests,
        "duration s": plan.duration_s,
        "request method": request.method,
        "request header fields": request.header_fields,
        "request body bytes": request.body_bytes,
    }


def _file_software(run: Run) -> Facts:
    engine, target, tls = run.trilane, run.target, run.target.tls
    facts: Facts = {
        "client version": engine.version,
        "client revision": engine.revision,
        "client profile": engine.profile,
        "server software": target.server,
        "client congestion control": target.congestion_control,
    }
    if tls is not None:
        facts |= {"TLS version": tls.version, "TLS cipher": tls.cipher, "TLS group": tls.group}
    return facts


def _source(run: RunFolder) -> Source:
    return Source(
        name=run.name,
        path=str(run.folder),
        kind=run.kind,
        experiment=run.experiment,
        form=run.form,
        quick=run.quick,
        status=run.status,
        started_at=run.manifest.started_at,
        blocks=min(point.comparison.plan.blocks_done for point in run.points),
        machine=machine_id(run.machine),
    )


def _cautions(found: Sequence[RunFolder]) -> list[Reason]:
    cautions = [
        suspect("incomplete", f"{run.name} is {run.status}: only its complete blocks count")
        for run in found
        if run.status != "complete"
    ]
    if len({machine_id(run.machine) for run in found}) > 1:
        told = "the runs of one side ran on different machines"
        cautions.append(suspect("different_machines", told))
    return cautions


def suspect(code: ReasonCode, text: str) -> Reason:
    """A reason to believe a comparison with care."""
    return Reason(code=code, verdict="suspect", text=text)


def _joined(facts: Sequence[Facts]) -> Facts:
    """The facts of several runs: equal ones once, others side by side."""
    joined: Facts = {}
    for name in dict.fromkeys(name for each in facts for name in each):
        seen = list({repr(each.get(name)): each.get(name) for each in facts}.values())
        joined[name] = seen[0] if len(seen) == 1 else " | ".join(str(value) for value in seen)
    return joined


def _reasons(judged: Sequence[Validity]) -> list[Reason]:
    """The reasons for what was judged of each."""
    return [reason for each in judged for reason in each.reasons if reason.verdict == each.verdict]

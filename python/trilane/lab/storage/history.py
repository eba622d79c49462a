"""A measure over time: the values of an experiment's runs, in series that may be set side by side.

A series is one arm at one point of the sweep, of one form, on one machine, with one workload.
Numbers of different machines or workloads are never joined by a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trilane.lab.model.comparison import Better, Unit
from trilane.lab.model.documents import Json
from trilane.lab.model.record import Time, Verdict
from trilane.lab.model.summary import RunSummary, SummaryStatus

SCHEMA = "trilane.history/1"
_TOLD = (
    *("folder", "kind", "experiment", "form", "quick", "status", "problem", "started_at"),
    *("command", "way_on", "machine", "measure", "validity", "verdict"),
)


class NoHistory(ValueError):
    """There is nothing to show; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Value:
    """One measure of one arm at one point of one run, in `unit`."""

    folder: str
    started_at: Time
    status: SummaryStatus
    machine: str
    machine_facts: Json
    form: str | None
    quick: bool
    point: float | None
    arm: str
    title: str
    software: str
    workload: str
    validity: Verdict
    measure: str
    label: str
    unit: Unit
    better: Better
    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """Values that answer the same question, the oldest first."""

    machine: str
    machine_facts: Json
    form: str | None
    quick: bool
    point: float | None
    arm: str
    title: str
    workload: str
    """A letter: `a` for the oldest workload of this arm, then `b` …"""
    values: Sequence[Value]

    @property
    def name(self) -> str:
        """Arm, and where it must be told, workload."""
        return self.title if self.workload == "a" else f"{self.title}, workload {self.workload}"


@dataclass(frozen=True, slots=True)
class History:
    """One measure of one experiment over time."""

    experiment: str
    measure: str
    label: str
    unit: str
    better: str
    series: Sequence[Series]

    def to_dict(self) -> Json:
        """As `trilane.history/1`."""
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            "measure": {
                "name": self.measure,
                "label": self.label,
                "unit": self.unit,
                "better": self.better,
            },
            "series": [
                {
                    "machine": {"id": each.machine, **each.machine_facts},
                    "form": each.form,
                    "quick": each.quick,
                    "point": each.point,
                    "arm": each.arm,
                    "workload": each.workload,
                    "values": [
                        {
                            "run": value.folder,
                            "started_at": value.started_at,
                            "status": value.status,
                            "software": value.software,
                            "validity": value.validity,
                            "median": value.median,
                            "low": value.low,
                            "high": value.high,
                        }
                        for value in each.values
                    ],
                }
                for each in self.series
            ],
        }


def overview(summaries: Sequence[RunSummary]) -> Json:
    """All runs, as `trilane.history/1` without a measure."""
    runs = [{name: getattr(summary, name) for name in _TOLD} for summary in summaries]
    return {"schema": SCHEMA, "runs": runs}


def read(
    summaries: Sequence[RunSummary],
    experiment: str | None,
    *,
    measure: str | None = None,
    form: str | None = None,
    arms: Sequence[str] = (),
    machine: str | None = None,
) -> History:
    """The history of a measure; by default of what the experiment's ranking goes by."""
    experiment = _experiment(summaries, experiment)
    those = [summary for summary in summaries if summary.experiment == experiment]
    values = [v for summary in those if form in (None, summary.form) for v in _values(summary)]
    if not values:
        which = f"{experiment} in form {form}" if form else experiment
        raise NoHistory(f"no run of {which} has a result yet")
    _known("arm", arms, [value.arm for value in values])
    _known("machine", [machine] if machine else [], [value.machine for value in values])
    _known("measure", [measure] if measure else [], [value.measure for value in values])
    chosen = measure or _ranking(those, values)
    shown = [
        value
        for value in values
        if value.measure == chosen
        and (not arms or value.arm in arms)
        and machine in (None, value.machine)
    ]
    if not shown:
        raise NoHistory(f"no run of {experiment} has {chosen} for what was asked")
    latest = shown[-1]
    return History(
        experiment=experiment,
        measure=chosen,
        label=latest.label,
        unit=latest.unit,
        better=latest.better,
        series=_series(shown),
    )


def _values(summary: RunSummary) -> Iterator[Value]:
    """Everything that the arms of a run reached, measure by measure."""
    shown = {measure.name: measure for measure in summary.measures}
    for arm in summary.arms:
        for name, reached in arm.reached.items():
            measure = shown.get(name)
            if measure is None or reached.median is None:
                continue
            yield Value(
                folder=summary.folder,
                started_at=summary.started_at or "",
                status=summary.status,
                machine=summary.machine or "",
                machine_facts=summary.machine_facts,
                form=summary.form,
                quick=summary.quick,
                point=arm.point,
                arm=arm.arm,
                title=arm.title,
                software=arm.software,
                workload=arm.workload,
                validity=arm.validity,
                measure=name,
                label=measure.label,
                unit=reached.unit,
                better=measure.better,
                median=reached.median,
                low=reached.low,
                high=reached.high,
            )


def _experiment(summaries: Sequence[RunSummary], asked: str | None) -> str:
    known = list(dict.fromkeys(run.experiment for run in summaries if run.experiment))
    if asked is None and len(known) == 1:
        return known[0]
    if asked in known:
        return str(asked)
    if not known:
        raise NoHistory("there is no run yet: make one with: trilane race")
    listed = ", ".join(sorted(known))
    if asked is None:
        raise NoHistory(f"name one of the experiments that have run: {listed}")
    raise NoHistory(f"no run of {asked!r}: these have run: {listed}")


def _known(what: str, asked: Sequence[str], there: Sequence[str]) -> None:
    for each in asked:
        if each not in there:
            names = ", ".join(dict.fromkeys(there))
            raise NoHistory(f"no run has the {what} {each!r}: there is {names}")


def _ranking(summaries: Sequence[RunSummary], values: Sequence[Value]) -> str:
    """What the latest ranking goes by, if any run has it; else the first measure there is."""
    there = {value.measure for value in values}
    return next(
        (run.measure for run in reversed(summaries) if run.measure in there and run.measure),
        values[0].measure,
    )


def _series(values: Sequence[Value]) -> list[Series]:
    grouped: dict[tuple[object, ...], list[Value]] = {}
    for value in values:
        key = (value.machine, value.form, value.quick, value.point, value.arm)
        grouped.setdefault(key, []).append(value)
    found = []
    for group in grouped.values():
        by_workload: dict[str, list[Value]] = {}
        for value in group:
            by_workload.setdefault(value.workload, []).append(value)
        for place, same in enumerate(by_workload.values()):
            newest = same[-1]
            found.append(
                Series(
                    machine=newest.machine,
                    machine_facts=newest.machine_facts,
                    form=newest.form,
                    quick=newest.quick,
                    point=newest.point,
                    arm=newest.arm,
                    title=newest.title,
                    workload=_letter(place),
                    values=same,
                )
            )
    return sorted(
        found,
        key=lambda each: (each.machine, each.form or "", each.quick, each.point or 0),
    )


def _letter(place: int) -> str:
    """`a` to `z`, then `a2` to `z2`."""
    turn, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")

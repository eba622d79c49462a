"""A measure over time: the values of an experiment's runs, in series that may be set side by side.

A series is one arm at one point of the sweep, of one form, on one machine, with one workload.
Numbers of different machines or workloads are never joined by a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trilane.lab.model.comparison import Shown, Summary
from trilane.lab.model.documents import Json
from trilane.lab.model.record import Unit
from trilane.lab.model.summary import ArmSummary, RunSummary

SCHEMA = "trilane.history/1"


class NoHistory(ValueError):
    """There is nothing to show; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Value:
    """One measure of one arm at one point of one run."""

    run: RunSummary
    arm: ArmSummary
    measure: Shown
    median: float
    """In the unit of `reached`."""
    reached: Summary
    branch: str | None = None
    """The branch whose history is asked for: whichever arm measured it."""

    @property
    def question(self) -> tuple[object, ...]:
        """Equal where values answer the same question but for the workload."""
        run, point, revision = self.run, self.arm.point or 0, self.arm.revision
        # Numbers are not compared with texts.
        at = (isinstance(point, str), point)
        of, whose = "", self.arm.arm
        if self.branch is not None and revision is not None:
            of, whose = revision.repository, revision.command
        return (run.machine or "", run.form or "", run.quick, at, of, whose)

    @property
    def title(self) -> str:
        """Name for people: that of the arm, or of repository, branch and command."""
        revision = self.arm.revision
        if self.branch is None or revision is None:
            return self.arm.title
        return f"{revision.repository} {self.branch}: {revision.command}"

    @property
    def software(self) -> str:
        """What was measured: of a branch the commit, else client and version."""
        revision = self.arm.revision
        if self.branch is None or revision is None:
            return self.arm.software
        return revision.short


@dataclass(frozen=True, slots=True)
class Series:
    """Values that answer the same question, the oldest first."""

    workload: str
    """A letter: `a` for the oldest workload of this arm, then `b` …"""
    values: Sequence[Value]

    @property
    def run(self) -> RunSummary:
        """The newest of its runs."""
        return self.values[-1].run

    @property
    def arm(self) -> ArmSummary:
        """What the arm reached there."""
        return self.values[-1].arm

    @property
    def name(self) -> str:
        """Arm, and where it must be told, workload."""
        title = self.values[-1].title
        return title if self.workload == "a" else f"{title}, workload {self.workload}"


@dataclass(frozen=True, slots=True)
class History:
    """One measure of one experiment over time."""

    experiment: str
    measure: Shown
    unit: Unit
    """Of the values."""
    series: Sequence[Series]
    branch: str | None = None
    """The branch whose history it is; None: that of an experiment's arms."""
    left_out: int = 0
    """The number of interrupted runs that have results and are left out."""

    def to_dict(self) -> Json:
        """As `trilane.history/1`."""
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            **({} if self.branch is None else {"branch": self.branch}),
            "measure": {
                "name": self.measure.name,
                "label": self.measure.label,
                "unit": self.unit,
                "better": self.measure.better,
            },
            "series": [
                {
                    "machine": {"id": each.run.machine or "", **each.run.machine_facts},
                    "form": each.run.form,
                    "quick": each.run.quick,
                    "point": each.arm.point,
                    "arm": each.arm.arm,
                    "workload": each.workload,
                    "values": [
                        {
                            "run": value.run.folder,
                            "started_at": value.run.started_at or "",
                            "status": value.run.status,
                            "software": value.arm.software,
                            "validity": value.arm.validity,
                            "median": value.median,
                            "low": value.reached.low,
                            "high": value.reached.high,
                            **_revision(value),
                        }
                        for value in each.values
                    ],
                }
                for each in self.series
            ],
        }


def _revision(value: Value) -> Json:
    """What a value tells of the revision that was measured, if one was."""
    revision = value.arm.revision
    if revision is None:
        return {}
    told = {"repository": revision.repository, "commit": revision.commit}
    return {**told, "branch": revision.branch, "subject": revision.subject}


def read(
    summaries: Sequence[RunSummary],
    experiment: str | None,
    *,
    measure: str | None = None,
    form: str | None = None,
    arms: Sequence[str] = (),
    machine: str | None = None,
    branch: str | None = None,
    interrupted: bool = False,
) -> History:
    """The history of a measure; by default of what the experiment's ranking goes by.

    With `branch` it is that of the commits of a branch, whichever arm they were. Runs that were
    interrupted are left out, unless they are asked for by `interrupted`.

    Raises:
        NoHistory: there is nothing of what was asked for.
    """
    if branch is not None:
        summaries = _of_branch(summaries, branch)
    experiment = _experiment(summaries, experiment)
    those = [summary for summary in summaries if summary.experiment == experiment]
    found = [
        v for summary in those if form in (None, summary.form) for v in _values(summary, branch)
    ]
    values = [value for value in found if interrupted or value.run.status != "interrupted"]
    if not values:
        which = f"{experiment} in form {form}" if form else experiment
        if found:
            raise NoHistory(f"every run of {which} was interrupted: --interrupted includes them")
        raise NoHistory(f"no run of {which} has a result yet")
    _known("arm", arms, [value.arm.arm for value in values])
    _known("machine", [machine] if machine else [], [value.run.machine or "" for value in values])
    _known("measure", [measure] if measure else [], [value.measure.name for value in values])
    chosen = measure or _ranking(those, values)
    shown = [
        value
        for value in values
        if value.measure.name == chosen
        and (not arms or value.arm.arm in arms)
        and machine in (None, value.run.machine)
    ]
    if not shown:
        raise NoHistory(f"no run of {experiment} has {chosen} for what was asked")
    latest = shown[-1]
    return History(
        experiment=experiment,
        measure=latest.measure,
        unit=latest.reached.unit,
        series=_series(shown),
        branch=branch,
        left_out=len(
            {value.run.folder for value in found} - {value.run.folder for value in values}
        ),
    )


def _of_branch(summaries: Sequence[RunSummary], branch: str) -> list[RunSummary]:
    """The runs that measured a commit of a branch."""
    told = [
        (summary, {arm.revision.branch for arm in summary.arms if arm.revision is not None})
        for summary in summaries
    ]
    found = [summary for summary, branches in told if branch in branches]
    if not found:
        known = sorted({name for _, branches in told for name in branches if name})
        there = f"there is {', '.join(known)}" if known else "trilane ab measures branches"
        raise NoHistory(f"no run has measured the branch {branch!r}: {there}")
    return found


def _values(summary: RunSummary, branch: str | None) -> Iterator[Value]:
    """Everything that the arms of a run reached, measure by measure; of a branch those it is."""
    shown = {measure.name: measure for measure in summary.measures}
    for arm in summary.arms:
        if branch is not None and (arm.revision is None or arm.revision.branch != branch):
            continue
        for name, reached in arm.reached.items():
            measure = shown.get(name)
            if measure is None or reached.median is None:
                continue
            yield Value(summary, arm, measure, reached.median, reached, branch)


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
        raise NoHistory(
            f"name one of the experiments that have run: {listed} (every run: trilane runs list)"
        )
    raise NoHistory(f"no run of {asked!r}: these have run: {listed}")


def _known(what: str, asked: Sequence[str], there: Sequence[str]) -> None:
    for each in asked:
        if each not in there:
            names = ", ".join(dict.fromkeys(there))
            raise NoHistory(f"no run has the {what} {each!r}: there is {names}")


def _ranking(summaries: Sequence[RunSummary], values: Sequence[Value]) -> str:
    """What the latest ranking goes by, if any run has it; else the first measure there is."""
    there = {value.measure.name for value in values}
    return next(
        (run.measure for run in reversed(summaries) if run.measure in there and run.measure),
        values[0].measure.name,
    )


def _series(values: Sequence[Value]) -> list[Series]:
    grouped: dict[tuple[object, ...], dict[str, list[Value]]] = {}
    for value in values:
        by_workload = grouped.setdefault(value.question, {})
        by_workload.setdefault(value.arm.workload, []).append(value)
    found = [
        Series(_letter(place), same)
        for by_workload in grouped.values()
        for place, same in enumerate(by_workload.values())
    ]
    # By machine, form, size and point; arms as they came.
    return sorted(found, key=lambda each: each.values[-1].question[:-1])


def _letter(place: int) -> str:
    """`a` to `z`, then `a2` to `z2`."""
    turn, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")

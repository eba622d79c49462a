"""Two runs set side by side: `trilane.contrast/1` (docs/contrast.schema.json).

Arms of the same name are compared, B to A, at every point of the sweep that both have, with the
statistics of `unpaired`. Holm's correction spans the arms and points of one measure. A difference
must also lie beyond the noise floor, the centre of A/A, of both runs.

Two runs met the machine at different times: what changed on it in between is part of every
difference found here. `control` names an arm that was not touched; every value is divided by that
arm's value in the same block, so that what moved both cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from msgspec import structs

from trilane.lab.analysis import bodies, contrast_answer, unpaired
from trilane.lab.analysis.paired import summary
from trilane.lab.analysis.sides import Cell, Side, suspect
from trilane.lab.analysis.stats import Floats
from trilane.lab.model.comparison import Fact, Floor, Shown
from trilane.lab.model.contrast import (
    SCHEMA,
    Contrast,
    ContrastSide,
    Difference,
    OneSided,
    Scope,
    SharedArm,
    Shift,
)
from trilane.lab.model.measures import BY_NAME, Measure
from trilane.lab.model.record import SweepValue, Unit
from trilane.lab.model.validity import Reason, Validity

_SCOPES: tuple[Scope, ...] = ("workload", "machine", "software")


class NotComparable(ValueError):
    """A and B answer different questions; the message says what differs."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compare, and how."""

    command: str
    measures: Sequence[str] = ()
    """Names; empty: all that both sides have."""
    arms: Sequence[str] = ()
    """Names; empty: all that both sides have."""
    control: str | None = None
    margin: float | None = None
    """None: the larger of the two runs'."""
    force: bool = False
    """Compare although the workloads differ."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Logarithms of the values of A and B behind one row."""

    a: Floats
    b: Floats
    valid: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """The contrast, and what gates need beside it."""

    contrast: Contrast
    samples: Sequence[Sample]
    """One for each of its ratios."""
    seed: int


def compare(a: Side, b: Side, wanted: Wanted) -> Compared:
    """Compare B with A."""
    _check(a, b, wanted)
    shared = _shared(a, b, wanted)
    differences = _differences(shared)
    workload = [row for row in differences if row.scope == "workload"]
    if workload and not wanted.force:
        raise NotComparable(
            "A and B measured different workloads, so their difference would say nothing: "
            + "; ".join(
                f"{row.name}: {_said(row.a)} in A, {_said(row.b)} in B" for row in workload[:4]
            )
            + (f"; and {len(workload) - 4} more" if len(workload) > 4 else "")
            + "\nto compare them all the same, marked as suspect: --force"
        )
    measures = _measures(a, b, wanted)
    margin = wanted.margin or max(a.margin, b.margin)
    rows: list[Shift] = []
    samples: list[Sample] = []
    for measure in measures:
        for row, sample in _family(a, b, shared, BY_NAME[measure.name], margin, wanted.control):
            rows.append(row)
            samples.append(sample)
    present = {row.measure for row in rows}
    measures = [measure for measure in measures if measure.name in present]
    if not rows:
        raise NotComparable("A and B have no measure with values in both")
    numbers = Contrast(
        schema=SCHEMA,
        command=wanted.command,
        a=_side(a),
        b=_side(b),
        unit=a.unit,
        margin=margin,
        control=wanted.control,
        measures=measures,
        rank=a.rank if a.rank in present else measures[0].name,
        arms=[
            SharedArm(name=name, title=title)
            for name, title in {a.name: _title(a, b) for _, a, b in shared}.items()
        ],
        only=OneSided(a=_only(a, b, wanted), b=_only(b, a, wanted)),
        ratios=rows,
        differences=differences,
        validity=Validity.of(_reasons(a, b, shared, workload)),
        gates=[],
        verdict="",
    )
    return Compared(contrast_answer.answered(numbers), samples, a.seed)


_Shared = list[tuple[SweepValue | None, Cell, Cell]]


def _check(a: Side, b: Side, wanted: Wanted) -> None:
    if {source.path for source in a.sources} & {source.path for source in b.sources}:
        raise NotComparable(f"A and B are the same: {a.label} and {b.label}")
    if a.unit != b.unit:
        raise NotComparable(
            f"A counts one value per {a.unit}, B one per {b.unit}: name one run on each side, "
            "several on each, or files of `trilane load` on each"
        )
    if wanted.control and a.unit == "file":
        raise NotComparable("--control needs run folders: a file of `trilane load` has no blocks")


def _shared(a: Side, b: Side, wanted: Wanted) -> _Shared:
    found = [
        (point, cell, b.points[point][name])
        for point, cells in a.points.items()
        if point in b.points
        for name, cell in cells.items()
        if name in b.points[point]
    ]
    names = list(dict.fromkeys(cell.name for _, cell, _ in found))
    if not found:
        theirs = [", ".join(dict.fromkeys(n for c in s.points.values() for n in c)) for s in (a, b)]
        raise NotComparable(
            f"no arm at any point is in both: A has {theirs[0]}; B has {theirs[1]}"
            + ("" if set(a.points) & set(b.points) else "; and no point of the sweep is in both")
        )
    for asked in [*wanted.arms, *([wanted.control] if wanted.control else [])]:
        if asked not in names:
            raise NotComparable(f"{asked!r} is not an arm of both A and B: {', '.join(names)}")
    return [entry for entry in found if not wanted.arms or entry[1].name in wanted.arms]


def _measures(a: Side, b: Side, wanted: Wanted) -> list[Shown]:
    theirs = {measure.name for measure in b.measures}
    both = [m for m in a.measures if m.name in theirs and m.name in BY_NAME]
    names = [measure.name for measure in both]
    for asked in wanted.measures:
        if asked not in names:
            raise NotComparable(f"{asked!r} is not a measure of both A and B: {', '.join(names)}")
    return [m for m in both if not wanted.measures or m.name in wanted.measures]


def _family(
    a: Side,
    b: Side,
    shared: _Shared,
    measure: Measure,
    margin: float,
    control: str | None,
) -> list[tuple[Shift, Sample]]:
    """The rows of one measure, adjusted together."""
    entries = []
    for point, first, second in shared:
        if first.name == control:
            continue
        values = [
            side.values(cell, measure, side.points[point][control] if control else None)
            for side, cell in ((a, first), (b, second))
        ]
        if all(len(each) for each in values):
            entries.append((point, first, second, values))
    samples = [
        Sample(
            np.log(values[0]),
            np.log(values[1]),
            _may_be_judged(first, second)
            and (
                control is None or _may_be_judged(*(side.points[point][control] for side in (a, b)))
            ),
        )
        for point, first, second, values in entries
    ]
    floors = [_floor(a, b, point, measure.name) for point, _, _, _ in entries]
    found = unpaired.compare(
        [(sample.a, sample.b) for sample in samples],
        floors=floors,
        margin=margin,
        seed=a.seed,
        valid=[sample.valid for sample in samples],
    )
    # Divided by the control, a value has no unit any more.
    unit: Unit = "1" if control else measure.unit
    return [
        (
            Shift(
                measure=measure.name,
                point=point,
                arm=first.name,
                a=summary(values[0], unit, a.seed),
                b=summary(values[1], unit, b.seed),
                noise_floor=floor,
                **(
                    asdict(judged) | {"finding": measure.ranked(judged.finding, alone=first.alone)}
                    if judged
                    else {"a_values": len(values[0]), "b_values": len(values[1])}
                ),
            ),
            sample,
        )
        for (point, first, _, values), sample, floor, judged in zip(
            entries, samples, floors, found, strict=True
        )
    ]


def _title(first: Cell, second: Cell) -> str:
    """Name for people: of what two load generators measured, of both."""
    if first.tool == second.tool:
        return first.title
    return f"{first.title} (A) and {second.title} (B)"


def _may_be_judged(first: Cell, second: Cell) -> bool:
    """Whether the runs of an arm are valid on both sides, and read the same body."""
    reasons = [*first.reasons, *second.reasons, *_different(first, second)]
    return Validity.of(reasons).verdict != "invalid"


def _different(first: Cell, second: Cell) -> list[Reason]:
    """Why an arm is not judged that was given other responses in B than in A; empty if not."""
    found = bodies.difference(first.given, second.given)
    if found is None:
        return []
    return [structs.replace(found, text=f"{first.title}: {found.text}")]


def _floor(a: Side, b: Side, point: SweepValue | None, measure: str) -> Floor | None:
    """Of the two runs' A/A intervals that whose centre is farther from 1."""
    floors = [side.floors[point, measure] for side in (a, b) if (point, measure) in side.floors]
    return max(floors, key=lambda floor: abs(math.log(floor.ratio)), default=None)


def _side(side: Side) -> ContrastSide:
    return ContrastSide(label=side.label, sources=list(side.sources), machine=side.machine)


def _only(side: Side, other: Side, wanted: Wanted) -> list[str]:
    """Arms, at their points, that the other side lacks."""
    return [
        name if point is None else f"{name} at {point:g}"
        for point, cells in side.points.items()
        for name in cells
        if name not in other.points.get(point, {}) and (not wanted.arms or name in wanted.arms)
    ]


def _differences(shared: _Shared) -> list[Difference]:
    """Facts that A and B do not share, each told once with the arms that it holds for."""
    arms: dict[tuple[Scope, str, Fact, Fact], list[str]] = {}
    for scope in _SCOPES:
        for _, first, second in shared:
            mine, theirs = first.facts[scope], second.facts[scope]
            if not mine or not theirs:
                # What one side does not tell is unknown, and not another.
                continue
            for name in dict.fromkeys([*mine, *theirs]):
                if mine.get(name) == theirs.get(name):
                    continue
                key = scope, name, _plain(mine.get(name)), _plain(theirs.get(name))
                told = arms.setdefault(key, [])
                if first.name not in told:
                    told.append(first.name)
    return [
        Difference(scope=scope, name=name, arms=names, a=a, b=b)
        for (scope, name, a, b), names in arms.items()
    ]


def _said(value: Fact) -> str:
    return "nothing" if value is None else str(value)


def _plain(value: Any) -> Fact:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _reasons(a: Side, b: Side, shared: _Shared, workload: Sequence[Difference]) -> list[Reason]:
    """What speaks against the comparison: against arms, sides, and both together."""
    apart = {first.title: _different(first, second) for _, first, second in shared}
    told = [reason for each in apart.values() for reason in each]
    for letter, cells in (("A", [a for _, a, _ in shared]), ("B", [b for _, _, b in shared])):
        # An arm tells a reason once, whatever the number of points.
        once = {(c.title, reason.code): reason for c in cells[::-1] for reason in c.reasons}
        told += [
            structs.replace(reason, text=f"{letter}, {title}: {reason.text}")
            for (title, _), reason in reversed(once.items())
        ]
    for letter, side in (("A", a), ("B", b)):
        told += [structs.replace(r, text=f"{letter}: {r.text}") for r in side.cautions]
    if a.machine != b.machine:
        told.append(suspect("different_machines", "A and B ran on different machines"))
    told += [
        suspect(
            "different_workload", f"another workload: {row.name}: {_said(row.a)} | {_said(row.b)}"
        )
        for row in workload
    ]
    return told


def apart(a: ContrastSide, b: ContrastSide) -> float | None:
    """Seconds from the start of A to that of B; None when one does not say when it was."""
    starts = [
        min((_time(s.started_at) for s in side.sources if s.started_at), default=None)
        for side in (a, b)
    ]
    if starts[0] is None or starts[1] is None:
        return None
    return starts[1] - starts[0]


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

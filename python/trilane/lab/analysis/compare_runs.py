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
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from trilane.lab.analysis import bodies, stats, unpaired
from trilane.lab.analysis.sides import Cell, Side
from trilane.lab.analysis.stats import Floats, Interval
from trilane.lab.model.comparison import Shown
from trilane.lab.model.documents import Json
from trilane.lab.model.measures import BY_NAME, Measure
from trilane.lab.storage.conditions import Scope

SCHEMA = "trilane.contrast/1"
_NUMBER = re.compile(r"[-+]?\d[\d.,]*")
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
class Contrast:
    """The document, and what gates need beside it."""

    document: Json
    samples: Sequence[Sample]
    """One for each row of `document["ratios"]`."""
    seed: int


def contrast(a: Side, b: Side, wanted: Wanted) -> Contrast:
    """Compare B with A."""
    _check(a, b, wanted)
    shared = _shared(a, b, wanted)
    differences = _differences(shared)
    workload = [row for row in differences if row["scope"] == "workload"]
    if workload and not wanted.force:
        raise NotComparable(
            "A and B measured different workloads, so their difference would say nothing: "
            + "; ".join(
                f"{row['name']}: {_said(row['a'])} in A, {_said(row['b'])} in B"
                for row in workload[:4]
            )
            + (f"; and {len(workload) - 4} more" if len(workload) > 4 else "")
            + "\nto compare them all the same, marked as suspect: --force"
        )
    measures = _measures(a, b, wanted)
    margin = wanted.margin or max(a.margin, b.margin)
    rows: list[Json] = []
    samples: list[Sample] = []
    for measure in measures:
        for row, sample in _family(a, b, shared, BY_NAME[measure.name], margin, wanted.control):
            rows.append(row)
            samples.append(sample)
    present = {row["measure"] for row in rows}
    measures = [measure for measure in measures if measure.name in present]
    if not rows:
        raise NotComparable("A and B have no measure with values in both")
    document: Json = {
        "schema": SCHEMA,
        "command": wanted.command,
        "a": _side(a),
        "b": _side(b),
        "unit": a.unit,
        "margin": margin,
        "control": wanted.control,
        "measures": [msgspec.to_builtins(measure) for measure in measures],
        "rank": next((m.name for m in measures if m.name == a.rank), measures[0].name),
        "arms": _arms(shared),
        "only": {"a": _only(a, b, wanted), "b": _only(b, a, wanted)},
        "ratios": rows,
        "differences": differences,
        "validity": _validity(a, b, shared, workload),
        "gates": [],
    }
    document["verdict"] = sentence(document, _suspicions(a, b, shared, workload))
    return Contrast(document, samples, a.seed)


_Shared = list[tuple[float | None, Cell, Cell]]


def _check(a: Side, b: Side, wanted: Wanted) -> None:
    if {source["path"] for source in a.sources} & {source["path"] for source in b.sources}:
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
            raise NotComparable(f"{asked!r} is no arm of both A and B: {', '.join(names)}")
    return [entry for entry in found if not wanted.arms or entry[1].name in wanted.arms]


def _measures(a: Side, b: Side, wanted: Wanted) -> list[Shown]:
    theirs = {measure.name for measure in b.measures}
    both = [m for m in a.measures if m.name in theirs and m.name in BY_NAME]
    names = [measure.name for measure in both]
    for asked in wanted.measures:
        if asked not in names:
            raise NotComparable(f"{asked!r} is no measure of both A and B: {', '.join(names)}")
    return [m for m in both if not wanted.measures or m.name in wanted.measures]


def _family(
    a: Side,
    b: Side,
    shared: _Shared,
    measure: Measure,
    margin: float,
    control: str | None,
) -> list[tuple[Json, Sample]]:
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
    invalid = [
        [
            *first.invalid,
            *second.invalid,
            *(a.points[point][control].invalid if control else ()),
            *(b.points[point][control].invalid if control else ()),
            *_different_bodies(first, second),
            *(_different_bodies(*(s.points[point][control] for s in (a, b))) if control else ()),
        ]
        for point, first, second, _ in entries
    ]
    samples = [
        Sample(np.log(values[0]), np.log(values[1]), not reasons)
        for (_, _, _, values), reasons in zip(entries, invalid, strict=True)
    ]
    found = unpaired.compare(
        [(sample.a, sample.b) for sample in samples],
        floors=[_floor(a, b, point, measure.name) for point, _, _, _ in entries],
        margin=margin,
        seed=a.seed,
        valid=[sample.valid for sample in samples],
    )
    return [
        (
            {
                "measure": measure.name,
                "point": point,
                "arm": first.name,
                "a": _summary(values[0], measure, a.seed, control),
                "b": _summary(values[1], measure, b.seed, control),
                **(_UNKNOWN | {"a_values": len(values[0]), "b_values": len(values[1])}),
                **(asdict(judged) | {"finding": measure.ranked(judged.finding)} if judged else {}),
                "noise_floor": _told(_floor(a, b, point, measure.name)),
            },
            sample,
        )
        for (point, first, _, values), sample, judged in zip(entries, samples, found, strict=True)
    ]


def _different_bodies(first: Cell, second: Cell) -> list[str]:
    """Why an arm is not judged that read another body in B than in A; empty where it did not."""
    if not bodies.differ(first.bodies, second.bodies):
        return []
    told = f"A read {first.bodies[0]}, B read {second.bodies[0]}"
    return [f"{first.title}: {told}: different bodies are never ranked"]


_UNKNOWN: Json = {
    "ratio": None,
    "low": None,
    "high": None,
    "p": None,
    "p_holm": None,
    "p_tost": None,
    "finding": "undecided",
}


def _floor(a: Side, b: Side, point: float | None, measure: str) -> Interval | None:
    """Of the two runs' A/A intervals that whose centre is farther from 1."""
    floors = [side.floors[point, measure] for side in (a, b) if (point, measure) in side.floors]
    return max(floors, key=lambda floor: abs(math.log(floor.centre)), default=None)


def _told(floor: Interval | None) -> Json | None:
    return None if floor is None else {"ratio": floor.centre, "low": floor.low, "high": floor.high}


def _summary(values: Floats, measure: Measure, seed: int, control: str | None) -> Json:
    interval = stats.bootstrap(values, stats.median, seed)
    return {
        "median": float(np.median(values)),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        # Divided by the control, a value has no unit any more.
        "unit": "1" if control else measure.unit,
    }


def _side(side: Side) -> Json:
    return {
        "label": side.label,
        "sources": [dict(source) for source in side.sources],
        "machine": side.machine,
    }


def _arms(shared: _Shared) -> list[Json]:
    titles = {first.name: first.title for _, first, _ in shared}
    return [{"name": name, "title": title} for name, title in titles.items()]


def _only(side: Side, other: Side, wanted: Wanted) -> list[str]:
    """Arms, at their points, that the other side lacks."""
    return [
        name if point is None else f"{name} at {point:g}"
        for point, cells in side.points.items()
        for name in cells
        if name not in other.points.get(point, {}) and (not wanted.arms or name in wanted.arms)
    ]


def _differences(shared: _Shared) -> list[Json]:
    """Facts that A and B do not share, each told once with the arms that it holds for."""
    found: dict[str, Json] = {}
    for _, first, second in shared:
        for scope in _SCOPES:
            mine, theirs = first.facts[scope], second.facts[scope]
            for name in dict.fromkeys([*mine, *theirs]):
                values = mine.get(name), theirs.get(name)
                if values[0] == values[1]:
                    continue
                key = repr((scope, name, values))
                row = found.setdefault(
                    key,
                    {
                        "scope": scope,
                        "name": name,
                        "arms": [],
                        **{side: _plain(v) for side, v in zip("ab", values, strict=True)},
                    },
                )
                if first.name not in row["arms"]:
                    row["arms"].append(first.name)
    order = {scope: place for place, scope in enumerate(_SCOPES)}
    return sorted(found.values(), key=lambda row: order[row["scope"]])


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _validity(a: Side, b: Side, shared: _Shared, workload: Sequence[Json]) -> Json:
    apart = [reason for _, *cells in shared for reason in _different_bodies(*cells)]
    invalid = [*dict.fromkeys(apart), *_told_by_arm(shared, "invalid")]
    suspect = _suspicions(a, b, shared, workload)
    verdict = "invalid" if invalid else "suspect" if suspect else "valid"
    return {"verdict": verdict, "reasons": [*invalid, *suspect]}


def _suspicions(a: Side, b: Side, shared: _Shared, workload: Sequence[Json]) -> list[str]:
    """Why what is found is to be taken with care; empty where nothing speaks against it."""
    suspect = _told_by_arm(shared, "suspect")
    for letter, side in (("A", a), ("B", b)):
        suspect += [f"{letter}: {caution}" for caution in side.cautions]
    if a.machine != b.machine:
        suspect.append("A and B ran on different machines")
    suspect += [
        f"another workload: {row['name']}: {_said(row['a'])} | {_said(row['b'])}"
        for row in workload
    ]
    return suspect


def _told_once(reasons: Sequence[str]) -> list[str]:
    """The first of those reasons that differ only in their numbers."""
    return list({_NUMBER.sub("#", reason): reason for reason in reversed(reasons)}.values())[::-1]


def _told_by_arm(shared: _Shared, which: str) -> list[str]:
    told = []
    for letter, place in (("A", 1), ("B", 2)):
        cells: dict[str, list[Cell]] = {}
        for entry in shared:
            cell = entry[place]
            if isinstance(cell, Cell):
                cells.setdefault(cell.title, []).append(cell)
        for title, same in cells.items():
            reasons = [r for cell in same for r in getattr(cell, which)]
            told += [f"{letter}, {title}: {reason}" for reason in _told_once(reasons)]
    return list(dict.fromkeys(told))


def apart(a: Json, b: Json) -> float | None:
    """Hours between the starts of A and of B; None when one does not say when it was."""
    starts = [
        min(
            (_time(source["started_at"]) for source in side["sources"] if source["started_at"]),
            default=None,
        )
        for side in (a, b)
    ]
    if starts[0] is None or starts[1] is None:
        return None
    return (starts[1] - starts[0]) / 3600


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def sentence(document: Json, suspicions: Sequence[str]) -> str:
    """The verdict: what differs in the measure that decides, by how much, with what interval.

    What is suspect is called so in it, for the first of `suspicions`.
    """
    rank = document["rank"]
    measure = next(m for m in document["measures"] if m["name"] == rank)
    rows = [row for row in document["ratios"] if row["measure"] == rank]
    titles = {arm["name"]: arm["title"] for arm in document["arms"]}
    label = measure["label"]
    broken = [row for row in rows if row["finding"] == "invalid"]
    differing = [row for row in rows if row["finding"] in ("higher", "lower")]
    same = [row for row in rows if row["finding"] == "no_difference"]
    unshown = [row for row in rows if row["finding"] == "undecided"]
    parts = []
    for row in sorted(differing, key=lambda row: -abs(math.log(row["ratio"])))[:3]:
        good = "better" if row["finding"] == measure["better"] else "worse"
        parts.append(f"{_name(row, titles)} {row['finding']} ({good}) in B: {interval(row)} of A")
    if len(differing) > 3:
        parts.append(f"and {len(differing) - 3} more differ")
    if same:
        parts.append(f"the same within {100 * document['margin']:g} %: {_list(same, titles)}")
    if unshown:
        few = _too_few(unshown, len(rows), document["unit"])
        parts.append(f"no difference shown: {_list(unshown, titles)}{few}")
    if broken:
        parts.append(f"invalid, not judged: {_list(broken, titles, numbers=False)}")
    lead = f"{label[0].upper()}{label[1:]}, B to A"
    if suspicions:
        # METHOD §3: whoever reads the ratio reads this too.
        lead += ", but suspect" if differing else ""
        more = len(suspicions) - 1
        others = f" and {more} more {'reason' if more == 1 else 'reasons'}" if more else ""
        parts.append(f"suspect because of {suspicions[0]}{others}")
    return f"{lead}: {'; '.join(parts)}."


def interval(row: Json) -> str:
    """A ratio with its interval, for a sentence."""
    if row["ratio"] is None:
        return "unknown"
    return f"{row['ratio']:.2f}× (95 % interval {row['low']:.2f}–{row['high']:.2f})"


def _too_few(rows: Sequence[Json], family: int, unit: str) -> str:
    """Whether the number of values alone forbids to show anything."""
    needed = unpaired.values_needed(family)
    fewest = min(min(row["a_values"], row["b_values"]) for row in rows)
    if all(
        unpaired.smallest_p(row["a_values"], row["b_values"]) * family > stats.ALPHA for row in rows
    ):
        return f"; {fewest} {unit}s cannot show one, {needed} on each side could"
    return ""


def _list(rows: Sequence[Json], titles: Json, *, numbers: bool = True) -> str:
    told = [
        f"{_name(row, titles)} {interval(row)}" if numbers else _name(row, titles)
        for row in rows[:3]
    ]
    return ", ".join(told) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")


def _name(row: Json, titles: Json) -> str:
    title = str(titles[row["arm"]])
    return title if row["point"] is None else f"{title} at {row['point']:g}"

"""What reports look at: a race and a lab run in one shape, and the look-ups they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.arms import TITLES
from trilane.lab.model.documents import Json
from trilane.lab.model.run import Run
from trilane.lab.model.sample import of_arm
from trilane.report import text

LAB = "trilane.lab/1"
FEW = 4
"""Up to so many arms stand side by side; more stand below each other."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A measure as a report shows it."""

    name: str
    label: str
    unit: str
    better: str


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep, or the only one of a result without a sweep."""

    value: float | None
    label: str
    """Such as `1,000 requests`; empty without a sweep."""
    key: str
    """Prefix of the names of its charts; empty without a sweep."""
    comparison: Json
    everyone: list[Json]
    """The arms of all points, so that an arm has one colour in the whole report."""


def as_lab(result: Json) -> Json:
    """A `trilane.lab/1` as it is; a `trilane.comparison/1` as a lab result with one point."""
    if result["schema"] == LAB:
        return result
    machine = result["ledger"]["machine"]
    absent = result.get("absent") or []
    return {
        "schema": LAB,
        "experiment": {
            "name": "race",
            "title": result.get("url") or result["question"],
            "form": None,
            "note": None,
            "question": result["question"],
            "hypothesis": None,
            "confounders": [],
            "source": None,
            "quick": False,
        },
        "command": result["command"],
        "replay": result["command"],
        "started_at": result["started_at"],
        "interrupted": result["interrupted"],
        "seed": result["plan"]["seed"],
        "machine": machine,
        "sweep": None,
        "points": [{"value": None, "comparison": result}],
        "crossings": [],
        "published": [],
        "expect": [],
        "skipped": [
            {"arm": TITLES.get(gone["version"], gone["name"]), "reason": gone["reason"]}
            for gone in absent
        ],
        "validity": result["validity"],
        "verdict": result["verdict"],
    }


def points(lab: Json) -> list[Point]:
    """The points of a lab result in the order of the sweep."""
    sweep = lab["sweep"]
    arms = everyone(lab)
    if sweep is None:
        return [Point(None, "", "", point["comparison"], arms) for point in lab["points"]]
    return [
        Point(
            point["value"],
            text.swept(point["value"], sweep["key"], sweep["unit"]),
            f"at{number}-",
            point["comparison"],
            arms,
        )
        for number, point in enumerate(lab["points"], start=1)
    ]


def everyone(lab: Json) -> list[Json]:
    """The arms of all points, each once."""
    arms: dict[str, Json] = {}
    for point in lab["points"]:
        for arm in point["comparison"]["arms"]:
            arms.setdefault(arm["name"], arm)
    return list(arms.values())


def titles(comparison: Json) -> dict[str, str]:
    """Title of every arm by its name."""
    return {arm["name"]: arm["title"] for arm in comparison["arms"]}


def lab_titles(lab: Json) -> dict[str, str]:
    """Title of every arm of every point by its name."""
    return {arm["name"]: arm["title"] for arm in everyone(lab)}


def measures(comparison: Json) -> list[Shown]:
    """The measures that have a value in some arm: the one that decides first."""
    known = [Shown(m["name"], m["label"], m["unit"], m["better"]) for m in comparison["measures"]]
    first = comparison["ranking"]["measure"]
    shown = [
        measure
        for measure in known
        if any(summary(arm, measure.name)["median"] is not None for arm in comparison["arms"])
    ]
    return sorted(shown, key=lambda measure: measure.name != first)


_UNKNOWN: Json = {"median": None, "low": None, "high": None, "unit": ""}


def summary(arm: Json, measure: str) -> Json:
    """Median and interval of a measure in an arm; nulls where it has none."""
    found: Json = arm["summary"].get(measure) or _UNKNOWN
    return found


def ranked(comparison: Json) -> list[Json]:
    """The arms, best first by the measure that decides; invalid and unknown ones last."""
    shown = measures(comparison)
    first = comparison["ranking"]["measure"]
    sign = next((-1 if m.better == "higher" else 1 for m in shown if m.name == first), 1)

    def place(arm: Json) -> tuple[bool, bool, float]:
        median = summary(arm, first)["median"]
        invalid = arm["validity"]["verdict"] == "invalid"
        return invalid, median is None, 0.0 if median is None else sign * median

    return sorted(comparison["arms"], key=place)


def listed(comparison: Json) -> list[Json]:
    """The arms as lists show them: few in their own order, many best first."""
    arms: list[Json] = comparison["arms"]
    return arms if len(arms) <= FEW else ranked(comparison)


def ratios(comparison: Json) -> dict[tuple[str, str], Json]:
    """Rows of `ratios` by measure and arm."""
    return {(row["measure"], row["arm"]): row for row in comparison["ratios"]}


def runs(arm: Json) -> list[Run]:
    """The runs of an arm, without those that left no result."""
    return [sample.run for sample in of_arm(arm) if sample.run is not None]


def clients(arms: Sequence[Json]) -> dict[str, list[Json]]:
    """Arms by the name of their client, in the order of their first arm."""
    groups: dict[str, list[Json]] = {}
    for arm in arms:
        groups.setdefault(arm["client"], []).append(arm)
    return groups


def machine_line(lab: Json) -> str:
    """The machine in one line: processor, CPUs, kernel; no names, no paths."""
    machine = lab["machine"]
    parts = [
        machine.get("cpu"),
        text.counted(machine["cpus_usable"], "CPU") if machine.get("cpus_usable") else None,
        machine.get("kernel"),
    ]
    return ", ".join(str(part) for part in parts if part)

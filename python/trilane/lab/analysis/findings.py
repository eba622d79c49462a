"""From the finished runs of an experiment to its result, `trilane.lab/1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trilane.lab.analysis import comparison, crossing, stats
from trilane.lab.analysis.comparison import Observed
from trilane.lab.analysis.measures import BY_NAME, Measure
from trilane.lab.analysis.stats import Floats
from trilane.lab.design.experiment import Experiment
from trilane.lab.design.form import Expect, Form, Published
from trilane.lab.keeping import store
from trilane.lab.model.documents import Json

SCHEMA = "trilane.lab/1"
_TURNED = {"higher": "lower", "lower": "higher"}


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the sweep, or the only point."""

    value: float | None
    form: Form
    observed: Observed


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the result is made of."""

    experiment: Experiment
    form: Form
    quick: bool
    points: Sequence[Point]
    command: str
    replay: str
    started_at: str
    seed: int
    machine: Mapping[str, Any]
    interrupted: bool
    skipped: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Arms that could not run here, and why."""


def result(found: Findings) -> Json:
    """Judge an experiment."""
    judged = [(point, comparison.compare(point.observed)) for point in found.points]
    experiment, form, sweep = found.experiment, found.form, found.form.sweep
    made: Json = {
        "schema": SCHEMA,
        "experiment": {
            "name": experiment.name,
            "title": experiment.title,
            "form": form.name,
            "note": form.note,
            "question": experiment.question,
            "hypothesis": experiment.hypothesis,
            "confounders": list(experiment.confounders),
            "source": None
            if experiment.source is None
            else {
                "title": experiment.source.title,
                "author": experiment.source.author,
                "date": experiment.source.date,
                "claim": experiment.source.claim,
            },
            "quick": found.quick,
        },
        "command": found.command,
        "replay": found.replay,
        "started_at": found.started_at,
        "finished_at": store.now(),
        "interrupted": found.interrupted,
        "seed": found.seed,
        "machine": dict(found.machine),
        "sweep": None
        if sweep is None
        else {"key": sweep.key, "unit": sweep.unit, "values": list(sweep.values)},
        "points": [{"value": point.value, "comparison": made} for point, made in judged],
        "crossings": _crossings(found),
        "published": [
            _published(row, point, made) for point, made in judged for row in point.form.published
        ],
        "expect": [
            _expected(row, point, made) for point, made in judged for row in point.form.expect
        ],
        "skipped": [{"arm": arm, "reason": reason} for arm, reason in found.skipped],
    }
    made["validity"] = _validity(made)
    made["verdict"] = _verdict(made)
    return made


def _crossings(found: Findings) -> list[Json]:
    sweep = found.form.sweep
    if sweep is None:
        return []
    measure = BY_NAME[found.form.rank]
    titles = {arm.name: arm.title for arm in found.form.arms}
    rows = []
    for arm, to in sweep.crossings:
        shared = [
            point
            for point in found.points
            if {arm, to} <= {one.name for one in point.observed.arms} and point.value is not None
        ]
        at = crossing.find(
            [float(point.value or 0) for point in shared],
            [_log_ratios(point.observed, arm, to, measure) for point in shared],
            found.seed,
        )
        text = crossing.sentence(
            at, titles.get(arm, arm), titles.get(to, to), sweep.unit, measure.label
        )
        rows.append(crossing.to_json(at, measure.name, (arm, to), sweep.unit, text))
    return rows


def _log_ratios(observed: Observed, arm: str, to: str, measure: Measure) -> Floats:
    table = comparison.Table(observed)
    if not table.comparable(arm, to):
        return np.empty(0)
    return stats.log_ratios(table.values(arm, measure), table.values(to, measure))


def _published(row: Published, point: Point, made: Json) -> Json:
    """The post's ratio beside ours: never as absolute times (METHOD §6)."""
    return {
        "measure": row.measure,
        "arm": row.arm,
        "to": row.to,
        "at": point.value,
        "published": {
            "arm": row.values[0],
            "to": row.values[1],
            "ratio": row.ratio,
            "where": row.where,
        },
        "ours": _ratio(point, made, row.measure, row.arm, row.to),
    }


def _expected(row: Expect, point: Point, made: Json) -> Json:
    ours = _ratio(point, made, row.measure, row.arm, row.to)
    met = None
    if ours is not None and ours["finding"] != "invalid":
        # Breached only when the whole interval lies outside: noise breaks no gate.
        met = not (ours["high"] < row.low or ours["low"] > row.high)
    return {
        "measure": row.measure,
        "arm": row.arm,
        "to": row.to,
        "at": point.value,
        "low": row.low,
        "high": row.high,
        "ratio": ours and ours["ratio"],
        "met": met,
    }


def _ratio(point: Point, made: Json, measure: str, arm: str, to: str) -> Json | None:
    """Ratio of two arms with its interval, computed anew where the comparison does not have it."""
    names = {one.name for one in point.observed.arms}
    if not {arm, to} <= names:
        return None
    row = _judged(made, measure, arm, to)
    if row is None:
        observed = replace(
            point.observed,
            arms=[one for one in point.observed.arms if one.name in (arm, to)],
            samples=[s for s in point.observed.samples if s.arm in (arm, to)],
            baseline=to,
            measures=(BY_NAME[measure],),
            rank=BY_NAME[measure],
            pairs=(),
        )
        row = comparison.compare(observed)["ratios"][0]
    if row["ratio"] is None:
        return None
    return {key: row[key] for key in ("ratio", "low", "high", "finding")}


def _judged(made: Json, measure: str, arm: str, to: str) -> Json | None:
    """The row of a comparison, so that no claim is made twice with two results."""
    for row in [*made["ratios"], *made["ranking"]["pairs"], *made.get("pairs", ())]:
        if row["measure"] == measure and (row["arm"], row["to"]) == (arm, to):
            return dict(row)
        if row["measure"] == measure and (row["to"], row["arm"]) == (arm, to) and row["ratio"]:
            return {
                **row,
                "ratio": 1 / row["ratio"],
                "low": 1 / row["high"],
                "high": 1 / row["low"],
                "finding": _TURNED.get(row["finding"], row["finding"]),
            }
    return None


def _validity(made: Json) -> Json:
    order = ("invalid", "suspect", "valid")
    verdicts = {point["comparison"]["validity"]["verdict"] for point in made["points"]}
    reasons = [
        f"{_at(made, point['value'])}{reason}"
        for point in made["points"]
        for reason in point["comparison"]["validity"]["reasons"]
    ]
    return {"verdict": next((v for v in order if v in verdicts), "valid"), "reasons": reasons}


def _at(made: Json, value: float | None) -> str:
    if value is None or made["sweep"] is None:
        return ""
    # :g would write 30,000,000 as 3e+07.
    number = f"{value:,.0f}" if value == int(value) else f"{value:,g}"
    return f"at {number} {made['sweep']['unit']}: "


def _verdict(made: Json) -> str:
    parts = [
        f"{_at(made, point['value'])}{point['comparison']['verdict']}" for point in made["points"]
    ]
    parts += [f"{row['text']}." for row in made["crossings"]]
    # Only our own words begin a sentence in capitals: names of arms stay as they are.
    return " ".join(f"At{part[2:]}" if part.startswith("at ") else part for part in parts)

"""What rows of a lab result are called: measures, and ratios of a post."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trilane.lab.model.comparison import BUILD, Finding
from trilane.lab.model.lab import ExpectedRatio, LabResult, OurRatio, PublishedRatio
from trilane.report import formatting, view


@dataclass(frozen=True, slots=True)
class Published:
    """A published ratio beside ours."""

    label: str
    """Of the ratio; where a post gives it twice, it says where."""
    theirs: str
    numbers: str
    """The two numbers whose ratio it is."""
    where: str
    """Where in the post they stand."""
    ours: str
    """With its interval."""
    finding: Finding | None
    """None where nothing was measured."""
    said: str
    """The finding, which is about 1, and what it is beside the published ratio."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A ratio that was promised beside ours."""

    label: str
    range: str
    here: str
    """With its interval."""
    word: str
    tone: str
    """good, bad or empty."""


_SIDES = {"higher": "above 1", "lower": "below 1", "no_difference": "no different from 1"}


def _said(theirs: float, ours: OurRatio) -> str:
    """Where ours lies: of 1, as its finding says, and of the published one, by its interval."""
    side = _SIDES.get(ours.finding)
    if side is None:
        return ours.finding.replace("_", " ")
    if ours.low <= theirs <= ours.high:
        beside = "as published"
    elif theirs > ours.high:
        beside = "below the published"
    else:
        beside = "above the published"
    opposite = {"higher": theirs < 1, "lower": theirs > 1}.get(ours.finding, False)
    return f"{side}, {beside}" + (": the opposite sign" if opposite else "")


def published(lab: LabResult) -> list[Published]:
    """The published ratios in their order."""
    labels = [ratio_label(lab, row) for row in lab.published]
    made = []
    for label, row in zip(labels, lab.published, strict=True):
        theirs, ours = row.published, row.ours
        made.append(
            Published(
                f"{label} ({theirs.where})" if labels.count(label) > 1 else label,
                f"{formatting.times(theirs.ratio)}×",
                f"{theirs.arm:g} ÷ {theirs.to:g}",
                theirs.where,
                formatting.ratio(ours.ratio, ours.low, ours.high) if ours else formatting.NONE,
                ours.finding if ours else None,
                _said(theirs.ratio, ours) if ours else "not measured",
            )
        )
    return made


def gates(lab: LabResult) -> list[Gate]:
    """What was promised, and whether it holds."""
    return [
        Gate(
            ratio_label(lab, row),
            promised(row),
            formatting.ratio(row.ratio, *(row.interval or (None, None))),
            gate_word(row),
            "bad" if row.breached else "good" if row.met else "",
        )
        for row in expected(lab)
    ]


def expected(lab: LabResult) -> list[ExpectedRatio]:
    """The gates, those of a race as they were typed: of each version to the baseline."""
    if lab.experiment.form is not None or not lab.points:
        return lab.expect
    return [row.against(lab.points[0].comparison.baseline) for row in lab.expect]


def promised(row: ExpectedRatio) -> str:
    """The ratios that a gate allows: `≤ 1.05×`."""
    if math.isinf(row.high):
        return f"≥ {formatting.times(row.low)}×"
    high = f"{formatting.times(row.high)}×"
    return f"{formatting.times(row.low)}–{high}" if row.low else f"≤ {high}"


def ratio_label(lab: LabResult, row: PublishedRatio | ExpectedRatio) -> str:
    """`elapsed time: hyper, HTTP/2 ÷ Requests, HTTP/1.1 at 1,000 requests`."""
    titles = view.lab_titles(lab)
    label = measure_label(lab, row.measure)
    said = f"{label}: {titles.get(row.arm, row.arm)} ÷ {titles.get(row.to, row.to)}"
    if lab.sweep and row.at is not None:
        said += f" at {formatting.swept(row.at, lab.sweep.key, lab.sweep.unit)}"
    return said


def measure_label(lab: LabResult, name: str) -> str:
    """The label of a measure anywhere in the result; its name where nothing has a value."""
    return next(
        (
            measure.label
            for point in lab.points
            for measure in view.measures(point.comparison)
            if measure.name == name
        ),
        name.replace("_", " "),
    )


def gate_word(row: ExpectedRatio) -> str:
    """Whether a gate holds: the whole interval says so, or it is undecided."""
    if row.ratio is None:
        return "not measured"
    return {True: "met", False: "breached", None: "undecided"}[row.met]


def remarks(lab: LabResult) -> str | None:
    """What was asked otherwise or shorter than the form says; and the build, if no release."""
    return " ".join(filter(None, [_altered(lab), unreleased(lab)])) or None


def unreleased(lab: LabResult) -> str | None:
    """A sentence on a build of ours whose numbers are not to be published; None for releases."""
    profiles = dict.fromkeys(
        f"{str(profile).removesuffix('-build')} build"
        for point in view.points(lab)
        for row in point.comparison.ledger.rows
        if row.name == BUILD
        for profile in row.values.values()
        if profile not in (None, "release")
    )
    if not profiles:
        return None
    measured = f"Measured by a {' and a '.join(profiles)} of Trilane"
    return f"{measured}: `make build` makes the one whose numbers to publish."


def _altered(lab: LabResult) -> str | None:
    experiment = lab.experiment
    if not experiment.altered:
        if not experiment.shortened:
            return None
        runs = f"Runs made shorter by --quick: {', '.join(experiment.shortened)}"
        return f"{runs}{', beside the numbers of the post' if lab.published else ''}."
    said = f"Asked otherwise than the form says: {', '.join(experiment.altered)}"
    beside = "; so the published numbers are not set beside this" if experiment.source else ""
    return f"{said}{beside}."

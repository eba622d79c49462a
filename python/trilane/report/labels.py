"""What rows of a lab result are called: measures, and ratios of a post."""

from __future__ import annotations

from trilane.lab.model.lab import ExpectedRatio, LabResult, PublishedRatio
from trilane.report import formatting, view


def published_labels(lab: LabResult) -> list[str]:
    """One label per published ratio; those that a post gives twice also say where."""
    labels = [ratio_label(lab, row) for row in lab.published]
    return [
        f"{label} ({row.published.where})" if labels.count(label) > 1 else label
        for label, row in zip(labels, lab.published, strict=True)
    ]


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


def altered(lab: LabResult) -> str | None:
    """A sentence on what was asked otherwise than the form says; None where nothing was."""
    experiment = lab.experiment
    if not experiment.altered:
        return None
    said = f"Asked otherwise than the form says: {', '.join(experiment.altered)}"
    beside = "; so the published numbers are not set beside this" if experiment.source else ""
    return f"{said}{beside}."

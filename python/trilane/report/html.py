"""A result as one offline HTML file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jinja2
from msgspec import UNSET

from trilane.lab.analysis import looks
from trilane.lab.analysis.verdict import bound_text
from trilane.lab.experiment.describe import templates
from trilane.lab.model.lab import LabResult
from trilane.report import (
    accounts,
    answers,
    capacities,
    cells,
    charts,
    drawing,
    formatting,
    grids,
    labels,
    ledgers,
    pairs,
    strip,
    view,
)
from trilane.report.view import Point


def render(lab: LabResult) -> str:
    """The page of a result: everything that a server said is escaped."""
    sections = []
    for point in view.points(lab):
        first, figures = charts.first(point), charts.of_point(point)
        # Alone it stands above all; else each point has its own.
        own = [first] if point.label and first is not None else []
        sections.append(_section(point, [*own, *figures], first))
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            lab=lab,
            found=lab.said,
            race=lab.experiment.form is None,
            sections=sections,
            sweep=charts.of_sweep(lab),
            beside=charts.published(lab),
            profiled=charts.profiles(lab),
            unprofiled=[] if lab.profiles is UNSET else lab.profiles.missing,
            published=labels.published(lab),
            expected=labels.gates(lab),
            machine=formatting.machine(lab.machine),
        )
    )


def fragment(lab: LabResult) -> str:
    """Verdict, published numbers and tables without charts and styles, for a notebook."""
    return (
        _environment()
        .get_template("fragment.html.jinja")
        .render(
            lab=lab,
            sections=[_section(point) for point in view.points(lab)],
            published=labels.published(lab),
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templates("trilane.report")
    environment.globals.update(
        formatting=formatting,
        findings=cells.FINDINGS,
        marks=cells.MARKS,
        bound_text=bound_text,
        said=ledgers.said,
        looked=looks.said,
        percent=looks.percent,
        level=view.level,
        runs_said=strip.said,
        setting=accounts.setting,
        drawn=accounts.drawn,
        software=view.software,
        repeated=accounts.repeated,
        total=accounts.total,
        titles=view.titles,
        remarks=labels.remarks,
        aside=answers.aside,
        drawing=drawing.svg,
    )
    return environment


def _section(
    point: Point,
    figures: Sequence[charts.Figures] = (),
    first: charts.Figures | None = None,
) -> dict[str, Any]:
    """One point of the result, ready to be shown."""
    comparison = point.comparison
    arms = view.listed(comparison)
    return {
        "point": point,
        "arms": arms,
        "side_by_side": len(arms) <= view.FEW,
        "numbers": cells.rows(comparison, arms),
        "grids": grids.grids(comparison),
        "capacity_head": capacities.head(comparison),
        "capacities": capacities.rows(comparison),
        "questions": pairs.questions(comparison, grids.SHOWN),
        "strip": strip.rows(comparison),
        "accounts": accounts.accounts(comparison),
        "first": first,
        "figures": figures,
        "facts": ledgers.facts(comparison),
    }

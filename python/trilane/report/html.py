"""A result as one offline HTML file."""

from __future__ import annotations

from dataclasses import dataclass

import jinja2

from trilane.lab.analysis import looks
from trilane.lab.analysis.verdict import bound_text
from trilane.lab.experiment.describe import templates
from trilane.lab.model.comparison import JudgedArm
from trilane.lab.model.lab import LabResult
from trilane.report import (
    accounts,
    cells,
    charts,
    formatting,
    grids,
    labels,
    ledgers,
    pairs,
    scripts,
    strip,
    view,
)
from trilane.report.view import Point


@dataclass(frozen=True, slots=True)
class _Section:
    """One point of the result, ready to be shown."""

    point: Point
    arms: list[JudgedArm]
    side_by_side: bool
    numbers: list[cells.Row]
    grids: list[grids.Grid]
    questions: list[pairs.Question]
    strip: list[strip.Row]
    accounts: list[accounts.Account]
    figures: list[charts.Figures]
    facts: list[ledgers.Fact]


def render(lab: LabResult) -> str:
    """The page of a result: everything that a server said is escaped."""
    sections = [_section(point) for point in view.points(lab)]
    sweep = charts.of_sweep(lab)
    beside = charts.published(lab)
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            lab=lab,
            race=lab.experiment.form is None,
            sections=sections,
            sweep=sweep,
            beside=beside,
            charts=charts.together(beside, sweep, (f for s in sections for f in s.figures)),
            published=labels.published(lab),
            expected=labels.gates(lab),
            machine=formatting.machine(lab.machine),
            vega=scripts.vega(),
        )
    )


def fragment(lab: LabResult) -> str:
    """Verdict, published numbers and tables without charts and styles, for a notebook."""
    return (
        _environment()
        .get_template("fragment.html.jinja")
        .render(
            lab=lab,
            sections=[_section(point, figures=False) for point in view.points(lab)],
            published=labels.published(lab),
        )
    )


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
        total=accounts.total,
        titles=view.titles,
        altered=labels.altered,
    )
    return environment


def _section(point: Point, *, figures: bool = True) -> _Section:
    comparison = point.comparison
    arms = view.listed(comparison)
    return _Section(
        point,
        arms,
        len(arms) <= view.FEW,
        cells.rows(comparison, arms),
        grids.grids(comparison),
        pairs.questions(comparison, grids.SHOWN),
        strip.rows(comparison),
        accounts.accounts(comparison),
        charts.of_point(point) if figures else [],
        ledgers.facts(comparison),
    )

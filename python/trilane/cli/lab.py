"""`trilane lab show`: what an experiment does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from trilane.cli import packages
from trilane.cli.ending import OK
from trilane.cli.options import Output
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trilane.lab.experiment.experiment import Experiment
    from trilane.lab.experiment.form import Form

# Columns that are not broken, and what lies between two columns.
_WHOLE = frozenset({"arm", "strategy"})
_GAP = 2

HELP = """Run experiments: clients, versions and strategies against servers.

An experiment is a TOML file. Those in the folder experiments of the current folder come first,
then those that ship with Trilane."""

lab_app = typer.Typer(name="lab", help=HELP, rich_markup_mode=None)


def show_experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, or a file.")],
    form: Annotated[
        str | None, typer.Option(metavar="FORM", help="Only this form. [default: all]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="As --quick runs it.")] = False,
    output: Output = "text",
) -> int:
    """Show what an experiment asks, does, compares and is compared with."""
    packages.need_lab("lab show")
    experiment = loaded(name)
    forms = [chosen_form(experiment, form)] if form else list(experiment.forms.values())
    if quick:
        forms = [each.quickened() for each in forms]
    if output == "json":
        whole = replace(experiment, forms={each.name: each for each in forms})
        sys.stdout.write(json.dumps(whole.to_dict(), ensure_ascii=False) + "\n")
        return OK
    from rich.console import Console

    console = Console()
    _print_head(experiment, console)
    for each in forms:
        _print_form(each, console)
    return OK


def loaded(name: str) -> Experiment:
    """The experiment of that name or in that file; Usage when there is none or it is bad."""
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.experiment.experiment import Experiment

    try:
        return Experiment.load(name)
    except BadExperiment as error:
        raise Usage(str(error), "trilane lab list") from error
    except OSError as error:
        raise Usage(f"cannot read {name}: {error.strerror}", "trilane lab list") from error


def chosen_form(experiment: Experiment, name: str) -> Form:
    """The form of that name; Usage when there is none."""
    from trilane.lab.experiment.words import meant

    form = experiment.forms.get(name)
    if form is None:
        forms = list(experiment.forms)
        problem = f"{experiment.name} has no form {name!r}{meant(name, forms)}"
        raise Usage(problem, f"trilane lab show {experiment.name}")
    return form


def _print_head(experiment: Experiment, console: Console) -> None:
    from rich.text import Text

    from trilane.lab.experiment import describe

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style), highlight=False)

    say(f"{experiment.title} ({experiment.name})", "bold")
    say(experiment.question)
    if experiment.hypothesis:
        say(f"Hypothesis: {experiment.hypothesis}")
    if experiment.source is not None:
        say(f"Source: {describe.source(experiment.source)}")
        if experiment.source.claim:
            say(f"Claim: {experiment.source.claim}")
    if experiment.confounders:
        say(f"{describe.confounders(experiment)}:")
        for confounder in experiment.confounders:
            say(f"- {confounder}")


def _print_form(form: Form, console: Console) -> None:
    from rich.text import Text

    from trilane.lab.experiment import describe

    console.print(Text(f"\n{form.name}", "bold"), highlight=False)
    columns, rows, same = describe.arms(form)
    every = f"every arm: {same}" if same else ""
    for line in (form.note, describe.workload(form), describe.statistics(form), every):
        if line:
            console.print(Text(line), highlight=False)
    if _fit(columns, rows, console.width):
        arms = _table(*columns)
        for cells in rows:
            _row(arms, *cells)
        console.print(arms, highlight=False)
    else:
        _print_below(columns, rows, console)
    if form.published:
        published = _table(*describe.PUBLISHED_COLUMNS)
        for row in form.published:
            _row(published, *describe.published_cells(row))
        console.print(published, highlight=False)


def _fit(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the table has room without a word cut in two."""
    needed = 0
    for number, column in enumerate(columns):
        cells = [row[number] for row in rows]
        kept = cells if column in _WHOLE else [word for cell in cells for word in cell.split()]
        needed += max(map(len, [*column.split(), *kept])) + _GAP
    return needed <= width


def _print_below(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """What a table has no room for: the first cell of each row, and the others named below it."""
    from rich.padding import Padding
    from rich.text import Text

    for first, *others in rows:
        told = (f"{name} {cell}" for name, cell in zip(columns[1:], others, strict=True) if cell)
        console.print(Text(first), highlight=False, soft_wrap=True)
        console.print(Padding(Text(", ".join(told), "dim"), (0, 0, 0, 2)), highlight=False)


def _table(*columns: str) -> Table:
    from trilane.report import styles

    table = styles.table()
    for column in columns:
        # Names are to be typed again: they are not broken where something else can be.
        table.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return table


def _row(table: Table, *cells: str) -> None:
    from rich.text import Text

    # As Text, because rich would read [brackets] of a file as markup.
    table.add_row(*map(Text, cells))

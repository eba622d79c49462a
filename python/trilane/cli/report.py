"""`trilane report`: a run shown again, as a page, a table, data or pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from trilane.cli import packages
from trilane.cli.ending import OK, fail
from trilane.cli.options import State
from trilane.cli.units import Usage

HELP = """Show a run again: on the terminal, and as one HTML file that needs no network.

RUN is a run folder, the name of a run or its beginning, `latest`, or an experiment (its latest
complete run; `bookstore-fair` for one form).

The page goes into the run's folder, or with -o into FILE. --format writes to stdout instead: the
page, a Markdown table for a README, CSV (one row per arm and measure, units as in the JSON: s, us,
B, %) or the result as JSON. --charts writes every chart as PNG and SVG.

Exit codes: 0 shown, 1 there is no such run or it cannot be shown, 2 wrong usage."""

_HINT = "trilane report --help"


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Which run.")] = "latest",
    to: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where the page goes."),
    ] = None,
    output: Annotated[
        Literal["html", "markdown", "csv", "json"] | None,
        typer.Option("--format", help="Write this to stdout."),
    ] = None,
    charts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every chart there, as PNG and as SVG."),
    ] = None,
    state: State = None,
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("report")
    import msgspec

    from trilane.lab.storage import store
    from trilane.lab.storage.runs import BadRun, find, load
    from trilane.report import html, images, tables, terminal, view

    if to is not None and (to.is_dir() or not to.absolute().parent.is_dir()):
        raise Usage(f"-o takes a file in a folder that exists, not {str(to)!r}", _HINT)
    if charts is not None and charts.exists() and not charts.is_dir():
        raise Usage(f"--charts takes a folder, not {str(charts)!r}", _HINT)
    try:
        found = load(find(run, store.state_folder(state)))
        result = found.judged
    except BadRun as error:
        return fail("trilane report", str(error))
    page = None
    if to is not None or output in (None, "html"):
        page = html.render(result)
    if output is None:
        terminal.show(result, Console())
    else:
        sys.stdout.write(
            {
                "html": lambda: page or "",
                "markdown": lambda: tables.markdown(result),
                "csv": lambda: tables.csv_text(result),
                "json": lambda: msgspec.json.encode(view.document(result)).decode() + "\n",
            }[output]()
        )
    sys.stdout.flush()
    place = to if to is not None or output is not None else found.folder / "report.html"
    try:
        if place is not None and page is not None:
            store.write_text(place, page)
            sys.stderr.write(f"report: {place}\n")
        if charts is not None:
            written = images.write(result, charts)
            sys.stderr.write(f"charts: {len(written)} files in {charts}\n")
    except OSError as error:
        return fail(
            "trilane report", f"could not write {error.filename or place}: {error.strerror}"
        )
    return OK

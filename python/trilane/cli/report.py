"""`trilane report`: a run shown again, as a page, a table, data or pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trilane import _core
from trilane.cli import packages, running
from trilane.cli.ending import OK, fail
from trilane.cli.options import State, Verbose
from trilane.cli.units import Usage
from trilane.report.screen import Console

if TYPE_CHECKING:
    from trilane.lab.storage.runs import RunFolder
    from trilane.report.charts import Chart

HELP = """Show a run again: on the terminal, and as one HTML file that needs no network.

RUN is a run folder, the name of a run or its beginning, `latest`, or an experiment (its latest
complete run; `bookstore-fair` for one form). Or it is a file of `trilane load -o FILE --format
json`: one run, or one search for the highest rate.

The terminal gets thirty lines, and all numbers by -v. The page goes into the run's folder, beside
such a file, or with -o into FILE. --format writes to stdout instead: the page, a Markdown table for
a README, CSV (one row per arm and measure, units as in the JSON: s, us, B, %) or the result as
JSON. --charts writes every chart as PNG and SVG.

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
    verbose: Verbose = False,
    state: State = None,
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("report")
    from trilane.lab.storage import store
    from trilane.lab.storage.runs import BadRun, find, load

    running.check_place("-o", to)
    if charts is not None and charts.exists() and not charts.is_dir():
        raise Usage(f"--charts takes a folder, not {str(charts)!r}", _HINT)
    try:
        if _is_single(run):
            return _single(Path(run), to, output, charts)
        return _whole(
            load(find(run, store.state_folder(state))), to, output, charts, verbose=verbose
        )
    except BadRun as error:
        return fail("trilane report", str(error))


def _whole(
    found: RunFolder, to: Path | None, output: str | None, charts: Path | None, *, verbose: bool
) -> int:
    """Show a run folder."""
    import msgspec

    from trilane.lab.analysis import findings
    from trilane.report import charts as drawn
    from trilane.report import html, tables, terminal, view

    result = findings.answered(found.judged)
    page = None
    if to is not None or output in (None, "html"):
        page = html.render(result)
    if output is None:
        terminal.show(result, Console(), verbose=verbose)
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
    pictures = [] if charts is None else drawn.charts(result)
    return _written(place, page, charts, pictures)


def _is_single(run: str) -> bool:
    """Whether a file is meant that is in no run folder."""
    from trilane.lab.storage.journal import MANIFEST

    path = Path(run)
    return path.is_file() and not (path.parent / MANIFEST).is_file()


def _single(file: Path, to: Path | None, output: str | None, charts: Path | None) -> int:
    """Show one run of `trilane load`, or one search."""
    import msgspec

    from trilane.lab.storage import singles
    from trilane.report import single

    if output in {"markdown", "csv"}:
        raise Usage(f"--format {output} needs a race or an experiment: one run has no table", _HINT)
    found = singles.load(file)
    page = single.render(found) if to is not None or output in {None, "html"} else None
    if output == "json":
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        headline = _core.for_terminal(single.answer(found).line)
        sys.stdout.write(f"{headline}\n" if output is None else page or "")
    sys.stdout.flush()
    place = to if to is not None or output is not None else file.with_suffix(".html")
    pictures = [] if charts is None else single.charts(found)
    return _written(place, page, charts, pictures)


def _written(
    place: Path | None, page: str | None, folder: Path | None, pictures: Sequence[Chart]
) -> int:
    """Write a page, where there is one, and pictures, where a folder was named; the exit code."""
    from trilane.lab.storage import store
    from trilane.report import images

    try:
        if place is not None and page is not None:
            store.write_text(place, page)
            sys.stderr.write(f"report: {place}\n")
        if folder is not None:
            written = images.write(pictures, folder)
            sys.stderr.write(f"charts: {len(written)} files in {folder}\n")
    except OSError as error:
        return fail(
            "trilane report", f"could not write {error.filename or place}: {error.strerror}"
        )
    return OK

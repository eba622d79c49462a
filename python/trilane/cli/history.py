"""`trilane history`: a measure over time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from trilane.cli import packages, running
from trilane.cli.ending import OK, fail
from trilane.cli.options import Output, State
from trilane.report.screen import Console

HELP = """Show a measure over time, per machine.

Of an EXPERIMENT (`race` for races; needed when several have run), what its arms reached in each
run, with 95 % intervals: the measure that its ranking goes by, or --measure. Runs on different
machines, of different forms or with different workloads are kept apart. A machine is a CPU model, a
number of usable CPUs and a kernel's major version. Interrupted runs are left out, unless
--interrupted is given. `trilane runs list` lists every run.

With --branch, what `trilane ab` measured of the commits of a branch, as base or as head. Where a
series stepped to another level, it is said at which run or commit and by how much (E-divisive with
a permutation test; it takes about ten values).

Exit codes: 0 shown, 1 there is nothing to show, 2 wrong usage."""


def history(  # noqa: PLR0913, PLR0917 - one parameter per flag
    experiment: Annotated[
        str | None, typer.Argument(metavar="EXPERIMENT", show_default=False, help="Of which.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option("-m", "--measure", metavar="NAME", help="Which measure.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("-a", "--arm", metavar="NAME", help="Only this arm (repeatable)."),
    ] = None,
    form: Annotated[str | None, typer.Option(metavar="NAME", help="Only this form.")] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this machine; `here` for this one.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="What `trilane ab` measured of a branch.")
    ] = None,
    interrupted: Annotated[
        bool, typer.Option("--interrupted", help="Include runs that were interrupted.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write charts to this HTML file.")
    ] = None,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("history")
    from trilane.lab.analysis import steps
    from trilane.lab.machine.facts import facts
    from trilane.lab.model.documents import machine_id
    from trilane.lab.storage import history as lab
    from trilane.lab.storage import store
    from trilane.lab.storage.summaries import summaries
    from trilane.report import formatting
    from trilane.report import history as shown

    running.check_place("--report", report)
    try:
        found = lab.read(
            summaries(store.state_folder(state)),
            experiment,
            measure=measure,
            form=form,
            arms=arm or (),
            machine=machine_id(facts()) if machine == "here" else machine,
            branch=branch,
            interrupted=interrupted,
        )
    except lab.NoHistory as error:
        return fail("trilane history", str(error))
    if output == "json":
        sys.stdout.write(json.dumps(steps.document(found), ensure_ascii=False) + "\n")
    else:
        shown.show(found, Console())
        sys.stdout.flush()
    if found.left_out:
        runs = formatting.counted(found.left_out, "interrupted run")
        sys.stderr.write(f"left out: {runs} (--interrupted includes them)\n")
    if report is None:
        return OK
    store.write_text(report, shown.page(found))
    sys.stderr.write(f"report: {report}\n")
    return OK

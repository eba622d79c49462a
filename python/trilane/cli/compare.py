"""`trilane compare`: two runs side by side, and gates on their difference."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trilane import hiding
from trilane.cli import packages, units
from trilane.cli.ending import BREACHED, INVALID, OK, fail
from trilane.cli.options import Output, State
from trilane.cli.units import Usage
from trilane.report.screen import Console

if TYPE_CHECKING:
    from trilane.lab.model.beside import Beside

HELP = """Compare two runs: is B different from A, by how much, with what interval?

A and B are run folders, names of runs, beginnings of names, `latest`, or experiments (their
latest complete run; `bookstore-fair` for one form). Arms of the same name are compared at the same
point of a sweep. Several runs on a side, separated by commas, count as one value each: that puts
what changes between sessions into the interval. So do several files of `trilane load -o`; a single
file has no interval and is refused.

Files of other load generators are read as well: oha's and vegeta's JSON, k6's summary, h2load's log
and report. Several of a tool on each side are compared like ours; a single one is set beside the
others, in the same units and with what its tool does not tell, and no winner is named.

Different workloads are refused unless --force. --control ARM divides every value by that arm's in
the same block, so that a drift of the machine between the two runs cancels.

--fail-if takes [ARM:]MEASURE>LIMIT about the ratio B/A, such as p99>1.1 or requests_per_s<-5%. It
is breached when the whole 95 % interval lies beyond the limit and a test against the limit,
adjusted over all gates, agrees.

Exit codes: 0 compared, 1 could not compare, 2 wrong usage, 3 a gate was breached, 4 a run is
invalid."""


def compare(  # noqa: PLR0913, PLR0917 - one parameter per flag
    a: Annotated[
        str, typer.Argument(metavar="A", show_default=False, help="What to compare with.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", show_default=False, help="What is compared.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("-m", "--measure", metavar="NAME", help="Only this measure (repeatable)."),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("-a", "--arm", metavar="NAME", help="Only this arm (repeatable)."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="Divide by this arm, which nothing was changed about."),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="What counts as no difference. [default: the runs']"),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR,…", help="Exit with 3 when B breaches one of these."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare although the workloads differ.")
    ] = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("compare")
    from msgspec import json, structs

    from trilane.lab.analysis import beside, compare_runs, contrast_answer, gates, sides
    from trilane.lab.storage import store
    from trilane.lab.storage.runs import BadRun

    try:
        parsed = list(dict.fromkeys(gates.parse(text) for text in units.listed(fail_if)))
    except gates.BadGate as error:
        raise Usage(str(error)) from error
    wanted = compare_runs.Wanted(
        command=hiding.command(["trilane", *sys.argv[1:]]),
        measures=measure or (),
        arms=arm or (),
        control=control,
        margin=None if margin is None else units.share("--margin", margin),
        force=force,
    )
    folder = store.state_folder(state)
    try:
        single = beside.files(a, b)
        if single is not None:
            if arm or control or parsed:
                flag = "--fail-if" if parsed else "--control" if control else "--arm"
                raise Usage(
                    f"{flag} needs runs with intervals: name four files or more on each side"
                )
            return _side_by_side(beside.beside(*single, wanted.command, wanted.measures), output)
        found = compare_runs.compare(sides.load(a, folder), sides.load(b, folder), wanted)
        judged = structs.replace(found.contrast, gates=gates.judge(parsed, found))
        contrast = contrast_answer.answered(judged)
    except (BadRun, compare_runs.NotComparable) as error:
        return fail("trilane compare", str(error))
    except gates.BadGate as error:
        raise Usage(str(error)) from error
    if output == "json":
        sys.stdout.write(json.encode(contrast).decode() + "\n")
    else:
        from trilane.report.contrast import show

        show(contrast, Console())
        sys.stdout.flush()
    if any(gate.breached for gate in contrast.gates):
        return BREACHED
    return INVALID if contrast.validity.verdict == "invalid" else OK


def _side_by_side(document: Beside, output: str) -> int:
    """Tell single runs of load generators; the exit code."""
    from msgspec import json

    if output == "json":
        sys.stdout.write(json.encode(document).decode() + "\n")
    else:
        from trilane.report.beside import show

        show(document, Console())
        sys.stdout.flush()
    return INVALID if document.validity.verdict == "invalid" else OK

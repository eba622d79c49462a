"""`trilane runs`: the runs of a state folder, listed and removed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilane import _core
from trilane.cli import packages, units
from trilane.cli.ending import FAILED, OK, fail
from trilane.cli.options import Output, State
from trilane.cli.report import report
from trilane.cli.units import Usage
from trilane.report.screen import Console

if TYPE_CHECKING:
    from trilane.lab.storage.removal import Left, Removal, StoredRun

HELP = """List, show and remove the runs that races and experiments keep.

They lie in the folder runs of the state folder. Without a command they are listed. `trilane
history` shows a measure over several."""

SHOW_HELP = """Show a run again: another name of `trilane report`.

Exit codes: 0 shown, 1 there is no such run or it cannot be shown, 2 wrong usage."""

PRUNE_HELP = """Remove the oldest runs until the limits hold: age, number, size in all.

At least one limit is needed; a run beyond any of them is removed, with all that are older. A run
that is still going, and whatever is not surely a run folder, is left alone and named. --dry-run
only says what would go.

\b
Examples:
  trilane runs prune --older-than 30d
  trilane runs prune --keep 50 --max-size 1g --dry-run

Exit codes: 0 the limits hold as far as runs may be removed, 1 a run could not be removed, 2 wrong
usage."""

REMOVE_HELP = """Remove these runs.

RUN is the whole name of a run, as `trilane runs list` has it, or its folder. If one of them is not
surely a run folder, or still going, nothing is removed. A link is never followed.

Exit codes: 0 removed, 1 something could not be removed, 2 wrong usage."""

SCHEMA = "trilane.runs/1"
# What a list leaves out: the results of each run, and how its summary was made.
_LEFT_OUT = frozenset({"schema", "made_of", "machine_facts", "measures", "arms"})

runs_app = typer.Typer(name="runs", help=HELP, rich_markup_mode=None)

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")
]


@runs_app.callback(invoke_without_command=True)
def _runs(context: typer.Context, state: State = None, output: Output = "text") -> int | None:
    if context.invoked_subcommand is None:
        return list_runs(state, output)
    if state is not None or output != "text":
        command = f"trilane runs {context.invoked_subcommand}"
        raise Usage(f"flags stand behind the command: {command} …", f"{command} --help")
    return None


@runs_app.command("list")
def list_runs(state: State = None, output: Output = "text") -> int:
    """List all runs, the oldest first, with status, size and verdict."""
    packages.need_lab("runs list")
    from trilane.lab.model.summary import RunSummary
    from trilane.lab.storage import removal, store
    from trilane.lab.storage.summaries import summaries
    from trilane.report import run_list

    folder = store.state_folder(state)
    known = summaries(folder)
    sizes = {row.folder: removal.size_bytes(folder / "runs" / row.folder) for row in known}
    if output == "json":
        names = [name for name in RunSummary.__struct_fields__ if name not in _LEFT_OUT]
        rows = [
            {**{name: getattr(row, name) for name in names}, "size_bytes": sizes[row.folder]}
            for row in known
        ]
        sys.stdout.write(json.dumps({"schema": SCHEMA, "runs": rows}, ensure_ascii=False) + "\n")
        return OK
    if not known:
        return fail("trilane runs", "there is no run yet: make one with: trilane race")
    run_list.show(known, sizes, Console())
    return OK


runs_app.command("show", help=SHOW_HELP)(report)


@runs_app.command("rm", help=REMOVE_HELP)
def remove_runs(
    run: Annotated[list[str], typer.Argument(metavar="RUN", show_default=False, help="Which.")],
    dry_run: DryRun = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("runs rm")
    from trilane.lab.storage import removal, store
    from trilane.lab.storage.removal import NotRemoved

    folder = store.state_folder(state)
    found: dict[Path, StoredRun] = {}
    problems = []
    for text in run:
        try:
            stored = removal.named(text, folder)
            removal.check(stored)
            found[stored.folder] = stored
        except NotRemoved as error:
            problems.append(str(error))
    if problems:
        for problem in problems:
            fail("trilane runs", problem)
        sys.stderr.write("nothing was removed\n")
        return FAILED
    return _removed(removal.Removal(list(found.values()), [], dry_run), output)


@runs_app.command("prune", help=PRUNE_HELP)
def prune_runs(
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Remove runs that began longer ago: 12h, 30d, 8w."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="N", help="Keep the N newest runs at most.")
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep the newest runs that fit into SIZE: 500m, 2g."),
    ] = None,
    dry_run: DryRun = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("runs prune")
    from dataclasses import replace

    from trilane.lab.storage import removal, store

    limits = removal.Limits(
        older_than=None if older_than is None else units.age("--older-than", older_than),
        keep=None if keep is None else units.count("--keep", keep),
        max_bytes=None if max_size is None else units.size("--max-size", max_size),
    )
    if limits == removal.Limits():
        raise Usage("prune needs a limit: --older-than AGE, --keep N or --max-size SIZE")
    try:
        found = removal.beyond(limits, store.state_folder(state))
    except removal.NotRemoved as error:
        return fail("trilane runs", str(error))
    return _removed(replace(found, dry_run=dry_run), output)


def _removed(planned: Removal, output: str) -> int:
    """Remove what is planned, unless it is a dry run, and report it; the exit code."""
    from dataclasses import replace

    from trilane.lab.storage import removal

    removed: list[StoredRun] = []
    problems: list[Left] = []
    for run in planned.removed:
        try:
            if not planned.dry_run:
                removal.remove(run)
            removed.append(run)
        except removal.NotRemoved as error:
            problems.append(removal.Left(run.name, str(error)))
        except OSError as error:
            why = f"could not remove {error.filename or run.folder}: {error.strerror}"
            problems.append(removal.Left(run.name, why))
    _report(replace(planned, removed=removed, left=[*planned.left, *problems]), output)
    return FAILED if problems else OK


def _report(done: Removal, output: str) -> None:
    from trilane.report import formatting

    if output == "json":
        sys.stdout.write(json.dumps(done.to_dict(), ensure_ascii=False) + "\n")
        return
    lines = [f"{run.name}  {formatting.quantity(run.size_bytes, 'B')}" for run in done.removed]
    total = formatting.quantity(sum(run.size_bytes for run in done.removed), "B")
    verb = "would remove" if done.dry_run else "removed"
    count = formatting.counted(len(done.removed), "run")
    lines.append(f"{verb} {count}, {total}" if done.removed else "nothing to remove")
    sys.stdout.write(_core.for_terminal("".join(f"{line}\n" for line in lines)))
    sys.stdout.flush()
    for each in done.left:
        sys.stderr.write(_core.for_terminal(f"left alone: {each.folder}: {each.why}\n"))

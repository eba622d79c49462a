"""What `race`, `lab run` and `lab replay` share: progress, where results go, exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from trilane import _core, quantity
from trilane.cli.ending import BREACHED, INTERRUPTED, INVALID, OK, fail
from trilane.cli.options import keep_report
from trilane.cli.units import Usage
from trilane.report.screen import Console

if TYPE_CHECKING:
    from trilane.lab import study
    from trilane.lab.asked import Wanted
    from trilane.lab.model.lab import LabResult

_REPORT = Path("report.html")


def check_place(flag: str, file: Path | None) -> None:
    """Refuse a place where `flag` cannot write its file, before anything runs."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise Usage(f"{flag} takes a file in a folder that exists, not {str(file)!r}")


def say(message: str, console: Console | None = None) -> None:
    """Tell on stderr what is done."""
    console = console or Console(stderr=True)
    console.print(
        _core.for_terminal(message), style="dim", highlight=False, markup=False, soft_wrap=True
    )


def run(
    command: str,
    wanted: Wanted,
    report: Path | None,
    output: str,
    markdown: Path | None = None,
    document: Callable[[study.Result], object] | None = None,
    *,
    here: bool = False,
    verbose: bool = False,
) -> int:
    """Run an experiment and tell what it found; messages begin with `command`.

    `markdown` is a file for what a pull request is told, `document` makes what is told as JSON
    (None: the whole result). `here`: without `report`, the page goes to report.html in this folder.
    `verbose` is for text: all of it.

    Raises:
        Usage: the experiment names what there is not, or the engine refuses its flags.
    """
    from trilane.lab import study
    from trilane.lab.asked import CannotRun
    from trilane.lab.clients.engine_run import Misused
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.storage.journal import BadJournal, Busy

    try:
        with _watcher(Console(stderr=True)) as watcher:
            made = study.run(wanted, watcher)
    except (BadExperiment, Misused) as error:
        raise Usage(str(error)) from error
    except (CannotRun, Busy, BadJournal) as error:
        return fail(command, str(error))
    if markdown is not None:
        from trilane.lab.storage import store
        from trilane.report import pages

        store.write_text(markdown, f"{pages.measured(made.result)}\n")
    return _tell(command, made, report, output, document, here=here, verbose=verbose)


def _tell(
    command: str,
    made: study.Result,
    report: Path | None,
    output: str,
    document: Callable[[study.Result], object] | None,
    *,
    here: bool,
    verbose: bool,
) -> int:
    import msgspec

    from trilane.lab.storage.summaries import summary
    from trilane.report import html, labels, terminal, view

    result = made.result
    # First what was found: a disk that is full must not lose it.
    if output == "json":
        told = view.document(result) if document is None else document(made)
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    else:
        terminal.show(result, Console(), verbose=verbose)
    sys.stdout.flush()
    # The page of a race that was interrupted replaces none of one that was not.
    unnamed = _REPORT if here and not (result.interrupted and _REPORT.exists()) else None
    kept = keep_report(html.render(result), made.folder, report, unnamed)
    # `trilane history` will ask for it.
    summary(made.folder)
    sys.stderr.write(f"report: {kept}\nruns: {made.folder}\n")
    if result.interrupted:
        sys.stderr.write("to go on, type the same command again\n")
    else:
        for row in labels.expected(result):
            what = labels.ratio_label(result, row)
            if row.ratio is None:
                sys.stderr.write(f"{command}: breached, as nothing was measured for it: {what}\n")
            elif row.breached:
                found = f"{what} is {row.ratio:.3g}, promised {labels.promised(row)}"
                sys.stderr.write(f"{command}: breached: {found}\n")
    return _exit_code(result)


def _exit_code(result: LabResult) -> int:
    if result.interrupted:
        return INTERRUPTED
    if result.validity.verdict == "invalid":
        return INVALID
    return BREACHED if any(row.breached for row in result.expect) else OK


class _TimeLeft(ProgressColumn):
    """Time left, counted down between runs as well."""

    max_refresh = 0.25

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text("")
        left = task.fields["left_s"] - (time.monotonic() - task.fields["told_at"])
        return Text(f"{quantity.time_left(left)} left", style="progress.remaining")


@contextmanager
def _watcher(console: Console) -> Iterator[study.Watcher]:
    from trilane.lab import study

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        _TimeLeft(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = progress.add_task("", total=None, left_s=0.0, told_at=0.0, visible=False)
    told: int | None = None

    def tell(message: str) -> None:
        say(message, console)

    def begin(runs: int, made: int) -> None:
        tell(f"{runs} runs" + (f", {made} of them made before" if made else ""))
        progress.update(task, total=runs, completed=made - 1)

    def step(title: str, block: int, blocks: int, left_s: float) -> None:
        nonlocal told
        progress.update(
            task,
            advance=1,
            description=f"block {block + 1} of {blocks}: {title[:40]}",
            left_s=left_s,
            told_at=time.monotonic(),
            visible=True,
        )
        # The blocks of a sweep begin anew at each of its values.
        if not console.is_terminal and block != told:
            told = block
            tell(f"block {block + 1} of {blocks}, about {quantity.time_left(left_s)} left")

    def change(runs: int) -> None:
        progress.update(task, total=(progress.tasks[0].total or 0) + runs)

    with progress:
        yield study.Watcher(say=tell, begin=begin, step=step, change=change)

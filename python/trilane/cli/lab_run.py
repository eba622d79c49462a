"""`trilane lab run` and `trilane lab replay`: flags, progress, where results go."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from trilane.cli import units
from trilane.cli.options import Output, State, keep_report
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from trilane.lab import study
    from trilane.lab.design.experiment import Experiment
    from trilane.lab.model.lab import LabResult

RUN_HELP = """Run an experiment, or go on with one that was interrupted.

NAME is one of `trilane lab list`, or a .toml file. Every run is a fresh process; each block holds
every arm once in random order, the baseline twice. Ctrl-C, a crash or kill -9 lose at most the run
that was under way: the same command continues where it stopped (--new begins anew).

-t picks arms and -n sets the requests, as in: trilane lab run strategies -t sync -t sync_threads
-n 1000

Exit codes: 0 done, 1 could not run, 2 wrong usage, 3 an expectation of the file was breached, 4 the
measurement is invalid, 130 interrupted (what was measured is still reported)."""
REPLAY_HELP = """Make the runs of an earlier experiment again: same plan, same seed, same order."""

OK, FAILED, BREACHED, INVALID, INTERRUPTED = 0, 1, 3, 4, 130

Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write the report here too; it is kept with the runs."
    ),
]


def run(  # noqa: PLR0913, PLR0917 - one parameter per flag
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment, or a .toml file.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="FORM",
            help="published, fair ... [default: fair, or the one that has the arms of -t]",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller, within 2 minutes on two cores.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="As many blocks as a publication needs.")
    ] = False,
    arms: Annotated[
        list[str] | None,
        typer.Option("-t", "--arm", metavar="ARM", help="Only this arm, repeatable."),
    ] = None,
    count: Annotated[
        str | None, typer.Option("-n", "--requests", metavar="N", help="Requests per run.")
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Blocks. [default: the file's, or as many as the arms need]"
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Seed of order and bootstrap. [default: random]")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--new", help="Begin anew, do not continue an interrupted run.")
    ] = False,
    report: Report = None,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    _needs_lab()
    from trilane.lab import study
    from trilane.lab.design.experiment import BadExperiment, Experiment

    if quick and publish:
        raise Usage("--quick and --publish contradict each other")
    try:
        experiment = Experiment.load(name)
    except BadExperiment as error:
        raise Usage(str(error)) from error
    wanted = study.Wanted(
        experiment=experiment,
        form=_form(experiment, form, arms or ()),
        quick=quick,
        publish=publish,
        blocks=None if blocks is None else units.count("--blocks", blocks),
        seed=None if seed is None else units.seed("--seed", seed),
        arms=arms or (),
        count=None if count is None else units.count("-n", count),
        state=state,
        fresh=fresh,
        command=["trilane", *sys.argv[1:]],
    )
    _check_arms(wanted)
    return _run(wanted, report, output)


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder, its name, or a prefix.")],
    report: Report = None,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    _needs_lab()
    from trilane.lab import study
    from trilane.lab.keeping import runs, store

    try:
        folder = runs.find(run, store.state_folder(state))
        wanted = study.from_manifest(runs.read_manifest(folder), state)
    except (runs.BadRun, study.CannotRun) as error:
        raise Usage(str(error)) from error
    return _run(wanted, report, output)


def _run(wanted: study.Wanted, report: Path | None, output: str) -> int:
    from trilane.lab import study
    from trilane.lab.bench import Unavailable
    from trilane.lab.design.bad_experiment import BadExperiment
    from trilane.lab.keeping.journal import BadJournal, Busy

    if report is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        raise Usage(f"--report takes a file in a folder that exists, not {str(report)!r}")
    try:
        with _watcher(Console(stderr=True)) as watcher:
            made = study.run(wanted, watcher)
    except BadExperiment as error:
        raise Usage(str(error)) from error
    except (study.CannotRun, Unavailable, Busy, BadJournal) as error:
        sys.stderr.write(f"trilane lab: error: {error}\n")
        return FAILED
    return _tell(made, report, output)


def _tell(made: study.Result, report: Path | None, output: str) -> int:
    import msgspec

    from trilane.lab.keeping import index
    from trilane.report import html, terminal

    result = made.result
    kept = keep_report(html.render(result), made.folder, report)
    problem = index.add_run(made.folder)
    if problem is not None:
        sys.stderr.write(f"trilane: {problem}\n")
    if output == "json":
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        terminal.show_lab(result, Console())
        sys.stdout.flush()
    sys.stderr.write(f"report: {kept}\nruns: {made.folder}\n")
    if result.interrupted:
        sys.stderr.write("to go on, type the same command again\n")
    return _exit_code(result)


def _exit_code(result: LabResult) -> int:
    if result.interrupted:
        return INTERRUPTED
    if result.validity.verdict == "invalid":
        return INVALID
    return BREACHED if any(row.met is False for row in result.expect) else OK


def _form(experiment: Experiment, name: str | None, arms: Sequence[str]) -> str:
    """The form that was named, else the one that has the arms, else the fair one."""
    from trilane.lab.design.words import meant

    if name is None:
        forms = sorted(experiment.forms, key=lambda form: form != "fair")
        having = [
            form for form in forms if set(arms) <= {arm.name for arm in experiment.forms[form].arms}
        ]
        return (having or forms)[0]
    if name not in experiment.forms:
        near = meant(name, experiment.forms)
        raise Usage(f"--form {name}: {experiment.name} has no such form{near}")
    return name


def _check_arms(wanted: study.Wanted) -> None:
    from trilane.lab.design.words import meant

    known = {arm.name: form.name for form in wanted.experiment.forms.values() for arm in form.arms}
    mine = [arm.name for arm in wanted.experiment.forms[wanted.form].arms]
    for arm in wanted.arms:
        if arm in mine:
            continue
        if arm in known:
            raise Usage(f"-t {arm} is an arm of --form {known[arm]}, not of {wanted.form}")
        raise Usage(f"-t {arm}: {wanted.experiment.name} has no such arm{meant(arm, mine)}")


def _needs_lab() -> None:
    for package in ("altair", "hdrh", "jinja2", "scipy"):
        if importlib.util.find_spec(package) is None:
            raise Usage(
                f"`trilane lab` needs the package {package}: type: pip install 'trilane[lab]'"
            )


@contextmanager
def _watcher(console: Console) -> Iterator[study.Watcher]:
    from trilane.lab import study

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}", style="progress.remaining"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = progress.add_task("", total=None, left="", visible=False)
    told: list[int] = []

    def say(message: str) -> None:
        console.print(message, style="dim", highlight=False, markup=False, soft_wrap=True)

    def begin(runs: int, made: int) -> None:
        say(f"{runs} runs" + (f", {made} of them made before" if made else ""))
        progress.update(task, total=runs, completed=made - 1, visible=True)

    def step(title: str, block: int, blocks: int, left_s: float) -> None:
        minutes, seconds = divmod(round(left_s), 60)
        left = f"{minutes}:{seconds:02} left"
        progress.update(
            task, advance=1, description=f"block {block + 1} of {blocks}: {title[:40]}", left=left
        )
        if not console.is_terminal and block not in told:
            told.append(block)
            say(f"block {block + 1} of {blocks}, about {left}")

    with progress:
        yield study.Watcher(say=say, begin=begin, step=step)

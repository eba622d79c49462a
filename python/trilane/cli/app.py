"""The Typer application, and how its errors look: one line, then what to type."""

from __future__ import annotations

import functools
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from trilane import __version__, _core, build_profile, interrupts, revision
from trilane.cli import (
    ab,
    cluster,
    compare,
    completions,
    doctor,
    history,
    lab,
    lab_list,
    lab_run,
    packages,
    race,
    report,
    runs,
    stdio,
)
from trilane.cli.ending import INTERRUPTED, OK, WRONG_USAGE, fail
from trilane.cli.units import Usage

# Commands of which each has commands.
_GROUPS = ("lab", "cluster", "runs")
# What does nothing by itself.
_BARE = ((), ("lab",), ("cluster",))
_ENDING = (signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="trilane",
    help="Send the same request over HTTP/1.1, HTTP/2 and HTTP/3, and say which one won, "
    "by how much, with what interval, at what cost.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("race", help=race.HELP)(race.race)
app.command("ab", help=ab.HELP)(ab.ab)
lab.lab_app.command("list", help=lab_list.HELP)(lab_list.list_experiments)
lab.lab_app.command("show")(lab.show_experiment)
lab.lab_app.command("run", help=lab_run.RUN_HELP)(lab_run.run)
lab.lab_app.command("replay", help=lab_run.REPLAY_HELP)(lab_run.replay)
app.add_typer(lab.lab_app)
cluster.cluster_app.command("start", help=cluster.START_HELP)(cluster.start)
cluster.cluster_app.command("worker", help=cluster.WORKER_HELP)(cluster.worker)
app.add_typer(cluster.cluster_app)
app.command("compare", help=compare.HELP)(compare.compare)
app.command("report", help=report.HELP)(report.report)
app.add_typer(runs.runs_app)
app.command("history", help=history.HELP)(history.history)
app.command("doctor", help=doctor.HELP)(doctor.doctor)
app.command("completions", help=completions.HELP)(completions.completions)

# Reached only for the list of commands: `__main__` hands these to Rust before Typer is imported.
_NATIVE: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@app.command("load", help="Load a server over one HTTP version.", context_settings=_NATIVE)
@app.command("serve", help="Serve HTTP/1.1, HTTP/2 and HTTP/3 to aim at.", context_settings=_NATIVE)
@app.command("gateway", help="Serve a gRPC server's services over HTTP.", context_settings=_NATIVE)
@app.command("network", help="Put programs on an emulated network.", context_settings=_NATIVE)
def _native(context: typer.Context) -> int:
    interrupts.leave_to_kernel()
    return _core.main(["trilane", str(context.info_name), *context.args])


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trilane {__version__} ({revision}, {build_profile})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "-V", "--version", callback=_version, is_eager=True, help="Version and build."
        ),
    ] = False,
) -> None:
    del version


@functools.cache
def commands() -> typer.core.TyperGroup:
    """The commands and their options, which take a twentieth of a second to make."""
    return typer.main.get_group(app)


def run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code of DESIGN §5."""
    stdio.prepare()
    for number in _ENDING:
        # One that is ignored from the start, as under `nohup`, stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    if tuple(arguments) in _BARE:
        commands()([*arguments, "--help"], prog_name="trilane", standalone_mode=False)
        return WRONG_USAGE
    try:
        with interrupts.raised():
            code = commands()(list(arguments), prog_name="trilane", standalone_mode=False)
    except Usage as error:
        words = arguments[: 2 if arguments[0] in _GROUPS else 1]
        hint = error.hint or f"trilane {' '.join(words)} --help"
        return fail("trilane", str(error), WRONG_USAGE, hint)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "trilane"
        flag = "--version" if arguments[0] == "version" else "--help"
        return fail("trilane", error.format_message(), WRONG_USAGE, f"{command} {flag}")
    except (typer.Abort, KeyboardInterrupt):
        return fail("trilane", "interrupted", INTERRUPTED)
    except (packages.NotInstalled, OSError) as error:
        return fail("trilane", str(error))
    return code if isinstance(code, int) else OK


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the command as Ctrl-C does: with the report of what was measured.

    Only the first signal counts: timeout(1) sends SIGTERM to the process and once more to its
    group, and a second KeyboardInterrupt would end what the first began.

    Raises:
        KeyboardInterrupt: always.
    """
    for number in _ENDING:
        if signal.getsignal(number) == _interrupt:
            # No SIG_IGN, which programs that are started from now on would inherit.
            signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt

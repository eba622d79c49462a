"""A command as it is typed, carried out in this process: what it says, and its exit code.

A process of its own would import for a second what this one has. Signals, terminals and streams
that are closed need one all the same: `TRILANE` begins it.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from trilane import cli
from trilane.lab import study
from trilane.lab.asked import order
from trilane.lab.experiment.form import Form

TRILANE = (sys.executable, "-m", "trilane")


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Planned:
    """What a command would run, and what it said until then."""

    form: Form
    stderr: str


def trilane(*arguments: str, folder: Path | None = None, **environment: str) -> Done:
    """`trilane ARGUMENTS`, typed in a folder and with these variables besides."""
    with _typing(arguments, folder, environment) as (out, err):
        code = cli.run(arguments)
    return Done(code, out.getvalue(), err.getvalue())


def planned(*arguments: str, folder: Path | None = None, **environment: str) -> Planned:
    """The same of a race, an experiment or a comparison of revisions, up to its first run.

    Raises:
        AssertionError: it ended before.
    """
    begun: list[Form] = []

    def conduct(made: study._Study, _watcher: study.Watcher) -> study.Result:
        assert order(made.form, made.seed)
        begun.append(made.form)
        raise _Begins

    with (
        _typing(arguments, folder, environment) as (out, err),
        mock.patch.object(study, "_conduct", conduct),
        contextlib.suppress(_Begins),
    ):
        cli.run(arguments)
    assert begun, (arguments, out.getvalue(), err.getvalue())
    return Planned(begun[0], err.getvalue())


class _Begins(Exception):
    """The first run would begin now."""


@contextlib.contextmanager
def _typing(
    arguments: Sequence[str], folder: Path | None, environment: Mapping[str, str]
) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What is said within, as a process of its own would have been started."""
    out, err = io.StringIO(), io.StringIO()
    # Which a command handles from its beginning on.
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    variables = {"NO_COLOR": "1", "COLUMNS": "100", **environment}
    try:
        with (
            contextlib.chdir(folder or Path.cwd()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, variables),
            mock.patch.object(sys, "argv", ["trilane", *arguments]),
        ):
            yield out, err
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

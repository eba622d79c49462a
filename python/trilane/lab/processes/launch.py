"""A server process that the lab starts: watched, logged, and gone when the lab is gone.

Between the lab and the server stands a guard (`processes/guard`) that waits on a pipe. However
the lab ends, by `kill -9` too, the kernel closes the pipe and the guard stops the server and
whatever descends from it. That does not hold when the guard is killed as well: then the server
itself gets its stop signal from the kernel, but daemons that it made may stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.supervisor import READY_S, Child, Late, ProcessFailed

# Programs that only root has on its PATH, and where Go's installer puts its own.
_MORE_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/go/bin")
# They would lead git to another repository, and the builds of two trees to one folder of results.
_OF_ANOTHER_TREE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "CARGO_TARGET_DIR")
# The guard kills what is left, after the server's own grace.
_CLEAR_S = 10.0
_TAIL_BYTES = 8192
_LINE_SHOWN = 300


class LaunchFailed(RuntimeError):
    """The program could not be started; the message says why."""


def find_program(name: str, path: str | None = None) -> str | None:
    """Where a program lies: on `path` (default: PATH) or where system programs are kept."""
    places = path if path is not None else os.environ.get("PATH", os.defpath)
    return shutil.which(name, path=os.pathsep.join([places, *_MORE_PLACES]))


def of_one_tree() -> dict[str, str]:
    """Our variables, without those that would lead what runs in one of two trees to another."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_TREE}


def cpu_numbers(text: str) -> list[int]:
    """The CPUs of a list such as "0,2-3"; raises LaunchFailed."""
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)):
            raise LaunchFailed(f"{text!r} is not a list of CPUs; it looks like 0,2-3")
        numbers.update(range(int(first), int(last if dash else first) + 1))
    absent = numbers - os.sched_getaffinity(0)
    if absent:
        raise LaunchFailed(f"this machine lets us use no CPU {min(absent)} (asked for {text})")
    return sorted(numbers)


class Launched:
    """A running server process and its log."""

    def __init__(self, guardian: Child, log: Path) -> None:
        self.log = log
        self._guardian = guardian
        self.exit_code: int | None = None
        """Exit code of the server once it has ended; negative: the number of a signal."""
        first = self._next_event(READY_S)
        if first is None:
            raise LaunchFailed(f"the guard of the server did not start it within {READY_S:g} s")
        if "cannot" in first:
            raise LaunchFailed(str(first["cannot"]))
        self.pid = int(first["pid"])

    def ended(self) -> bool:
        """Whether the server has ended by itself."""
        if self.exit_code is None:
            event = self._next_event(0.0)
            if event is not None:
                self.exit_code = int(event["exit"])
        return self.exit_code is not None

    def pids(self) -> list[int]:
        """The server and everything it has started."""
        return [self.pid, *proc.descendants(self.pid)]

    def tail(self, lines: int = 8) -> str:
        """The last lines of the log, long ones cut; may be empty."""
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        said = [line.rstrip()[:_LINE_SHOWN] for line in text.splitlines() if line.strip()]
        return "\n".join(said[-lines:])

    def _next_event(self, patience_s: float) -> dict[str, Any] | None:
        """What the guard says next; None when it says nothing for so many seconds."""
        try:
            line = self._guardian.read_line("what became of the server", patience_s)
        except Late:
            return None
        except ProcessFailed as error:
            raise LaunchFailed(f"the guard of the server {error}") from error
        event: dict[str, Any] = json.loads(line)
        return event


@contextlib.contextmanager
def launched(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    cpus: str | None = None,
    stop_signal: str = "SIGTERM",
    grace_s: float = 5.0,
) -> Iterator[Launched]:
    """Run `command` (absolute program path) for as long as the context, or the lab, lives.

    stdout and stderr go to `log`. `environment` replaces ours. `cpus` are those it may run on, such
    as "0,2-3" (None: all of ours). At the end it gets `stop_signal`, and SIGKILL `grace_s` seconds
    later.

    Raises:
        LaunchFailed: the program cannot be started, or `cpus` are not ours to use.
    """
    numbers = ",".join(map(str, cpu_numbers(cpus or "")))
    guardian_command = [
        *(*supervisor.isolated("guard"), stop_signal, str(grace_s), numbers),
        *command,
    ]
    with contextlib.ExitStack() as stack:
        try:
            guardian = stack.enter_context(
                supervisor.started(
                    guardian_command,
                    pipes=True,
                    log=log,
                    cwd=cwd,
                    environment=environment,
                    grace_s=grace_s + _CLEAR_S,
                    ends_with_stdin=True,
                )
            )
        except ProcessFailed as error:
            raise LaunchFailed(f"the guard of the server {error}") from error
        yield Launched(guardian, log)

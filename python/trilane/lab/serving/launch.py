"""A server process that the lab starts: watched, logged, and gone when the lab is gone.

Between the lab and the server stands a guard (`guard`) that waits on a pipe. However
the lab ends, by `kill -9` too, the kernel closes the pipe and the guard stops the server and
whatever descends from it. That does not hold when the guard is killed as well: then the server
itself gets its stop signal from the kernel, but daemons that it made may stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trilane.lab.serving import guard

# Programs that only root has on its PATH, and where Go's installer puts its own.
_MORE_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/go/bin")
_START_S = 20.0
_KILL_S = 10.0
_TAIL_BYTES = 8192
_LINE_LIMIT = 65_536
_LINE_SHOWN = 300


class LaunchFailed(RuntimeError):
    """The program could not be started; the message says why."""


def find_program(name: str, path: str | None = None) -> str | None:
    """Where a program lies: on `path` (default: PATH) or where system programs are kept."""
    places = path if path is not None else os.environ.get("PATH", os.defpath)
    return shutil.which(name, path=os.pathsep.join([places, *_MORE_PLACES]))


def cpu_numbers(text: str) -> list[int]:
    """The CPUs of a list such as "0,2-3"; raises LaunchFailed."""
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)):
            raise LaunchFailed(f"{text!r} is no list of CPUs; it looks like 0,2-3")
        numbers.update(range(int(first), int(last if dash else first) + 1))
    absent = numbers - os.sched_getaffinity(0)
    if absent:
        raise LaunchFailed(f"this machine lets us use no CPU {min(absent)} (asked for {text})")
    return sorted(numbers)


class Launched:
    """A running server process and its log."""

    def __init__(self, guardian: subprocess.Popen[bytes], log: Path) -> None:
        self.log = log
        self._guardian = guardian
        self._told = b""
        self.exit_code: int | None = None
        """Exit code of the server once it has ended; negative: the number of a signal."""
        first = self._next_event(_START_S)
        if first is None:
            raise LaunchFailed(f"the guard of the server did not start it within {_START_S:g} s")
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
        return [self.pid, *guard.descendants(self.pid)]

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
        stdout = self._guardian.stdout
        if stdout is None:
            raise LaunchFailed("the guard of the server has no output to read")
        deadline = time.monotonic() + patience_s
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._told and len(self._told) < _LINE_LIMIT:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                got = os.read(stdout.fileno(), 4096)
                if not got:
                    said = self.tail(3) or "nothing"
                    raise LaunchFailed(f"the guard of the server ended early and said: {said}")
                self._told += got
        line, _, self._told = self._told.partition(b"\n")
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
    later. Raises LaunchFailed when the program cannot be started.
    """
    guardian_command = [
        *(sys.executable, "-I", "-S", guard.__file__),
        *(stop_signal, str(grace_s), ",".join(map(str, cpu_numbers(cpus or "")))),
        *command,
    ]
    with log.open("ab") as errors:
        guardian = subprocess.Popen(
            guardian_command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=cwd,
            env=None if environment is None else dict(environment),
            # Ctrl-C at the terminal is for the lab, which stops its servers in order.
            process_group=0,
        )
    try:
        yield Launched(guardian, log)
    finally:
        _stop(guardian, grace_s)


def _stop(guardian: subprocess.Popen[bytes], grace_s: float) -> None:
    """Close the lifeline and wait for the guard to have cleared up."""
    if guardian.stdin:
        with contextlib.suppress(OSError):
            guardian.stdin.close()
    try:
        guardian.wait(grace_s + _KILL_S)
    except subprocess.TimeoutExpired:
        left = guard.descendants(guardian.pid)
        guardian.kill()
        guardian.wait()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if guardian.stdout:
        guardian.stdout.close()

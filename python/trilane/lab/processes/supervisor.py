"""Starts, watches and ends every process of the lab.

A process gets a group of its own, so that Ctrl-C at the terminal reaches the lab, which ends the
group in order. Its stderr goes to a file, as what it writes last is wanted for a message and a pipe
that nobody reads would stop it. Nothing waits without a limit. However the context ends, by an
exception or Ctrl-C too, the process is asked to end, then made to, with everything in its group and
everything that descends from it; a process that ends by itself takes what it left in its group with
it. A server that has to go when the lab is killed, too, is started by a guard (`guard`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import trilane
from trilane.lab.processes import proc
from trilane.lab.processes.words import how_ended, told

GRACE_S = 5.0
"""How long a process may take to end when it is asked to."""
READY_S = 120.0
"""How long a process that lives may take until it is ready: this only ends a hang."""
_KILL_S = 10.0
_CHUNK = 1 << 16
_WORDS_LIMIT = 1 << 16
_LINE_LIMIT = 64 << 20
_OUTPUT_LIMIT = 16 << 20


class ProcessFailed(RuntimeError):
    """A process did not do what was asked; the message goes on after its name: "ended …"."""


class NotStarted(ProcessFailed):
    """The program could not be started."""


class Late(ProcessFailed):
    """A limit of time has passed."""


class Ended(ProcessFailed):
    """The process ended, or closed its pipe, before it did what was asked."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended."""

    code: int
    """Exit code; negative: the number of a signal."""
    usage: resource.struct_rusage
    """What it and the children that it waited for have used."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a process that ran to its end said; of each stream the first 16 MiB."""

    code: int
    """Exit code; negative: the number of a signal."""
    output: bytes
    errors: bytes

    @property
    def said(self) -> str:
        """What it wrote to its stdout, then what it wrote to its stderr."""
        return (self.output + b"\n" + self.errors).decode(errors="replace")

    def why(self) -> str:
        """The line that says what went wrong, or how it ended; for a code that is a failure."""
        return told(self.output + b"\n" + self.errors) or how_ended(self.code)


class Child:
    """A process that `started` has started."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output: IO[bytes] | None,
        errors: IO[bytes],
        said_from: int,
        *,
        leads_group: bool,
    ) -> None:
        """`errors` holds what it says on stderr, from byte `said_from` on."""
        self.pid = process.pid
        self._leads_group = leads_group
        self._process = process
        self._output = output
        self._errors = errors
        self._said_from = said_from
        self._line = bytearray()
        self._ended = os.pidfd_open(process.pid)
        self._exit: Exit | None = None

    def wait(self, limit_s: float) -> bool:
        """Whether the process has ended, within `limit_s` seconds; it stays to be reaped."""
        return self._exit is not None or _ready(self._ended, select.POLLIN, limit_s)

    def reap(self) -> Exit:
        """How the process ended, which it has (`wait`); what it left in its group is killed."""
        if self._exit is None:
            # Before it is waited for: until then the kernel gives its id to no other group.
            self._signal(signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            self._exit = Exit(os.waitstatus_to_exitcode(status), usage)
            self._process.returncode = self._exit.code
        return self._exit

    def write_line(self, line: bytes, limit_s: float) -> None:
        """Write a line to its stdin; raises Late, and Ended when nobody reads it."""
        self.write(line + b"\n", limit_s)

    def write(self, data: bytes, limit_s: float) -> None:
        """Write to its stdin; raises Late, and Ended when nobody reads it."""
        pipe = self._pipe(self._process.stdin)
        rest = memoryview(data)
        deadline = time.monotonic() + limit_s
        try:
            while rest:
                if not _ready(pipe, select.POLLOUT, deadline - time.monotonic()):
                    raise Late(self.with_words(f"did not read its stdin within {limit_s:g} s"))
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(pipe, rest) :]
        except BrokenPipeError:
            raise self._ended_without("reading its stdin") from None

    def close_stdin(self) -> None:
        """Close its stdin, if it is open: the end of what is said to it."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def read_line(self, what: str, limit_s: float) -> bytes:
        """The next line of its stdout, without its end; `what` says in messages what it is.

        Raises:
            Late: there was no whole line within `limit_s` seconds.
            Ended: its stdout closed before the end of a line.
            ProcessFailed: the line is longer than 64 MiB.
        """
        pipe = self._pipe(self._process.stdout)
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._line:
            if len(self._line) > _LINE_LIMIT:
                raise ProcessFailed(f"writes without end instead of {what}")
            if not _ready(pipe, select.POLLIN, deadline - time.monotonic()):
                raise Late(self.with_words(f"did not say {what} within {limit_s:g} s"))
            got = os.read(pipe, _CHUNK)
            if not got:
                raise self._ended_without(f"saying {what}")
            self._line += got
        line, _, self._line = self._line.partition(b"\n")
        return bytes(line)

    def read(self, what: str, limit_s: float) -> bytes | None:
        """What it has written to its stdout next; None: nothing within `limit_s` seconds.

        Raises:
            Ended: its stdout closed, without `what`.
        """
        pipe = self._pipe(self._process.stdout)
        if not _ready(pipe, select.POLLIN, limit_s):
            return None
        got = os.read(pipe, _CHUNK)
        if not got:
            raise self._ended_without(f"saying {what}")
        return got

    def kill(self) -> None:
        """End the process at once; the end of its context waits for that."""
        if not self.wait(0.0):
            self._signal(signal.SIGKILL)

    def output(self) -> bytes:
        """The first 16 MiB of what it has written to its stdout, when no pipe was asked for."""
        if self._output is None:
            raise ValueError("the stdout of this process is a pipe: read its lines")
        return _content(self._output, 0, _OUTPUT_LIMIT)

    def errors(self) -> bytes:
        """The first 16 MiB of what it has written to its stderr."""
        return _content(self._errors, self._said_from, _OUTPUT_LIMIT)

    def late(self, limit_s: float) -> Late:
        """The error that it has not ended within `limit_s` seconds."""
        return Late(self.with_words(f"did not end within {limit_s:g} s"))

    def with_words(self, what: str) -> str:
        """`what`, and after a colon the line of its stderr that says what went wrong, if any."""
        begin = max(self._said_from, _size(self._errors) - _WORDS_LIMIT)
        words = told(_content(self._errors, begin, _WORDS_LIMIT))
        return f"{what}: {words}" if words else what

    def stop(self, grace_s: float, *, ends_with_stdin: bool) -> None:
        """Ask the process to end, then make it: it, its group and its descendants."""
        self.close_stdin()
        try:
            if ends_with_stdin:
                self.wait(grace_s)
            if not self.wait(0.0):
                self._signal(signal.SIGTERM)
                self.wait(grace_s)
        finally:
            # A second Ctrl-C only ends the time that it has to end by itself.
            self._end()

    def _end(self) -> None:
        if not self.wait(0.0):
            # Those that have left the group; when it has ended they are nobody's children.
            left = proc.descendants(self.pid)
            self._signal(signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # The kernel may keep it for a while, in a system call that cannot be interrupted.
        if self.wait(_KILL_S):
            self.reap()
        os.close(self._ended)
        if self._process.stdout:
            self._process.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._leads_group:
                os.killpg(self.pid, number)
            elif self._exit is None:
                os.kill(self.pid, number)

    def _ended_without(self, what: str) -> Ended:
        # Its pipe closes before its last words are written and its code is known.
        how = f" with {how_ended(self.reap().code)}" if self.wait(GRACE_S) else ""
        return Ended(self.with_words(f"ended{how} without {what}"))

    def _pipe(self, pipe: IO[bytes] | None) -> int:
        if pipe is None:
            raise ValueError("this process was started without pipes")
        return pipe.fileno()


@contextlib.contextmanager
def started(  # noqa: PLR0913 - one parameter per property of a process
    command: Sequence[str],
    *,
    pipes: bool = False,
    fed: bool = False,
    shown: bool = False,
    log: Path | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    cpus: Sequence[int] | None = None,
    grace_s: float | None = None,
    ends_with_stdin: bool = False,
) -> Iterator[Child]:
    """Run `command` for as long as the context lives, at most.

    With `pipes` its stdin and stdout are read and written; with `fed` its stdin is written and its
    stdout kept; otherwise its stdin is empty and its stdout is kept. Its stderr goes to the end of
    `log`, or is kept. With `shown` its stdout and stderr are ours, and so is its group, so that it
    may have the terminal: what the terminal signals reaches it, too. `environment` replaces ours.
    It runs on `cpus` from its first instruction (None: all of ours). At the end of the context its
    stdin closes; one that `ends_with_stdin` has `grace_s` seconds (None: GRACE_S) to end by that,
    and all have as many between SIGTERM and SIGKILL.

    Raises:
        NotStarted: the program could not be started.
    """
    with (
        open(log, "a+b", opener=_private) if log else tempfile.TemporaryFile() as errors,
        contextlib.nullcontext() if pipes else tempfile.TemporaryFile() as output,
    ):
        # A log may hold the words of an earlier process.
        said_from = _size(errors)
        streams = _Streams(
            stdin=subprocess.PIPE if pipes or fed else subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE if pipes else output,
            stderr=None if shown else errors,
        )
        group = None if shown else 0
        process = _popen(command, streams, cwd, environment, cpus, group)
        try:
            child = Child(process, output, errors, said_from, leads_group=not shown)
        except BaseException:
            process.kill()
            process.wait()
            raise
        try:
            yield child
        finally:
            child.stop(GRACE_S if grace_s is None else grace_s, ends_with_stdin=ends_with_stdin)


def _private(path: str, flags: int) -> int:
    # What a program says may be as secret as what it was told.
    return os.open(path, flags, 0o600)


def isolated(module: str) -> tuple[str, ...]:
    """The command that runs `main` of a module beside this one with the arguments that follow.

    Isolated and without site-packages: it starts at once, and in any environment.
    """
    code = (
        f"import sys; sys.path.append(sys.argv.pop(1)); from {__package__} import {module}; "
        f"sys.exit({module}.main(sys.argv[1:]))"
    )
    return sys.executable, "-I", "-S", "-c", code, str(Path(trilane.__file__).parents[1])


def finished(
    command: Sequence[str],
    *,
    limit_s: float,
    log: Path | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Run `command` to its end, as `started` does, and keep what it says.

    What it leaves behind is killed, and cannot hold up the caller by keeping its output open.

    Raises:
        NotStarted: the program could not be started.
        Late: it did not end within `limit_s` seconds.
    """
    with started(command, log=log, cwd=cwd, environment=environment) as child:
        if not child.wait(limit_s):
            raise child.late(limit_s)
        return Done(child.reap().code, child.output(), child.errors())


@dataclass(frozen=True, slots=True)
class _Streams:
    """As Popen takes them."""

    stdin: int
    stdout: IO[bytes] | int | None
    stderr: IO[bytes] | None


def _popen(
    command: Sequence[str],
    streams: _Streams,
    cwd: Path | None,
    environment: Mapping[str, str] | None,
    cpus: Sequence[int] | None,
    group: int | None,
) -> subprocess.Popen[bytes]:
    try:
        with _on(cpus):
            process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                cwd=cwd,
                env=None if environment is None else dict(environment),
                process_group=group,
            )
    except OSError as error:
        raise NotStarted(f"does not start: {error.filename or command[0]}: {error.strerror}") from (
            error
        )
    if process.stdin:
        # So that a program that does not read cannot hold us.
        os.set_blocking(process.stdin.fileno(), False)
    return process


@contextlib.contextmanager
def _on(cpus: Sequence[int] | None) -> Iterator[None]:
    """What this thread starts meanwhile runs on those CPUs; raises OSError for one that is not."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _ready(descriptor: int, event: int, limit_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, limit_s) * 1e3))


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _content(file: IO[bytes], begin: int, limit: int) -> bytes:
    # The process shares a temporary file's position, which must not move while it writes.
    return os.pread(file.fileno(), limit, begin)

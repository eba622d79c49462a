"""One run of a contender: the protocol of docs/contenders.md, watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trilane.lab.clients.contender_messages import Ready, Result
from trilane.lab.clients.observe import Ending, Instant, Watch
from trilane.lab.design import places
from trilane.lab.model.documents import Json
from trilane.lab.process import told

# Python and its libraries on a cold disk; the first start of a Go or Node program.
READY_S = 60.0
_REPORT_S = 60.0
_POLITE_S = 3.0
_LINE_LIMIT = 64 * 1024 * 1024


_Message = TypeVar("_Message")


class RunFailed(RuntimeError):
    """The contender did not deliver; the message says at which step and why."""


class Declined(RunFailed):
    """The contender says that it cannot do this plan; the message is its reason."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a contender told, and what was seen of it."""

    ready: Ready
    result: Result
    ending: Ending
    started: float
    begin: Instant
    end: Instant
    peak_rss: int | None

    @property
    def cpu_s(self) -> float:
        """CPU from the first request to the last response, with that of ended children."""
        return max(0.0, self.end.cpu_s - self.begin.cpu_s) + self.ending.children_s

    @property
    def wire_bytes(self) -> int | None:
        """Bytes through the loopback interface while the workload ran."""
        if self.begin.wire is None or self.end.wire is None:
            return None
        return self.end.wire - self.begin.wire


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Called when the workload begins and when it has ended: for the server's meter."""

    begin: Callable[[], None]
    end: Callable[[], None]


def run(
    command: Sequence[str],
    plan: Json,
    *,
    log: Path,
    limit_s: float,
    cpus: Sequence[int] | None = None,
    stopwatch: Stopwatch | None = None,
) -> Delivered:
    """Run a contender once; raises `RunFailed` when it does not deliver in time."""
    started = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
            env=environment(),
        )
        if cpus:
            os.sched_setaffinity(process.pid, cpus)
        watch = Watch(process.pid, begun=started)
        try:
            return _converse(process, watch, plan, log, limit_s, stopwatch, started)
        except BrokenPipeError as error:
            raise RunFailed(_last_words(log, "ended before it was asked")) from error
        finally:
            stop_group(process)


def environment() -> dict[str, str]:
    """Variables of a contender: ours, and the harness where its Python looks for modules."""
    modules = [str(places.shipped("contenders") / "harness")]
    if ours := os.environ.get("PYTHONPATH"):
        modules.append(ours)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(modules)}


def _converse(
    process: subprocess.Popen[bytes],
    watch: Watch,
    plan: Json,
    log: Path,
    limit_s: float,
    stopwatch: Stopwatch | None,
    started: float,
) -> Delivered:
    lines = _Lines(process, log)
    many = bool(plan["processes"] or plan["repeat_processes"])
    lines.write(json.dumps(plan))
    ready = lines.told("ready", Ready, READY_S + limit_s * bool(plan["warmup"]))
    if many:
        watch.follow_memory()
    if stopwatch:
        stopwatch.begin()
    begin = watch.instant()
    lines.write("start")
    lines.event("done", limit_s)
    end = watch.instant()
    if stopwatch:
        stopwatch.end()
    peak = watch.peak()
    result = lines.told("result", Result, _REPORT_S)
    lines.close()
    ending = lines.wait(watch, _REPORT_S)
    if ending.code != 0:
        raise RunFailed(_last_words(log, f"ended with {_code(ending.code)}"))
    return Delivered(ready, result, ending, started, begin, end, peak)


class _Lines:
    """JSON lines from and to the contender, none of which is waited for without limit."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        if process.stdin is None or process.stdout is None:
            raise RunFailed("the contender has no pipes")
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._log = log
        self._buffer = bytearray()

    def write(self, line: str) -> None:
        self._stdin.write(line.encode() + b"\n")
        self._stdin.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def event(self, name: str, limit_s: float) -> Json:
        """The next event, which must be `name`."""
        line = self._line(name, time.monotonic() + limit_s, limit_s)
        try:
            event: Any = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise RunFailed(
                _last_words(self._log, f"said {bytes(line[:200])!r} instead of {name!r}")
            )
        if event.get("event") == "cannot":
            raise Declined(str(event.get("reason") or "it did not say why"))
        if event.get("event") != name:
            raise RunFailed(
                _last_words(self._log, f"said {event.get('event')!r} instead of {name!r}")
            )
        return event

    def told(self, name: str, message: type[_Message], limit_s: float) -> _Message:
        """The next event, which must be `name` and hold what `message` wants."""
        event = self.event(name, limit_s)
        try:
            return msgspec.convert(event, message)
        except msgspec.ValidationError as error:
            raise RunFailed(f"its {name!r} is wrong: {error}") from error

    def wait(self, watch: Watch, limit_s: float) -> Ending:
        """The end of the process."""
        deadline = time.monotonic() + limit_s
        while not watch.has_ended():
            if time.monotonic() > deadline:
                raise RunFailed(f"it did not end within {limit_s:g} s of its result")
            time.sleep(0.002)
        ending = watch.end()
        self._process.returncode = ending.code
        return ending

    def _line(self, name: str, deadline: float, limit_s: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if len(self._buffer) > _LINE_LIMIT:
                    raise RunFailed("it writes without end")
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise RunFailed(
                        _last_words(self._log, f"did not say {name!r} within {limit_s:g} s")
                    )
                got = os.read(self._stdout.fileno(), 1 << 16)
                if not got:
                    raise RunFailed(_last_words(self._log, f"ended without saying {name!r}"))
                self._buffer += got
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line


def _last_words(log: Path, what: str) -> str:
    with contextlib.suppress(OSError):
        words = told(log.read_bytes()[-65_536:])
        if words:
            return f"it {what}: {words}"
    return f"it {what}"


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Leave no process behind, children of the contender included."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if process.returncode is not None:
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLITE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()

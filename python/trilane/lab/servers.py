"""Targets that a race starts itself: the embedded server, its readiness and what it spends.

Server CPU per request
    Kernel counters of the server's threads are read before and after each run, so they cover the
    run's handshakes and warm-up as well. They are divided by all requests of the run, warm-up
    included: numerator and denominator span the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trilane.lab.measures import Json

PROGRAM = (sys.executable, "-m", "trilane", "serve")
READY_SCHEMA = "trilane.serve/1"
_READY_S = 20.0
_STOP_S = 5.0
_LINE_LIMIT = 65_536
_TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(RuntimeError):
    """The server did not come up; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of ours."""

    pid: int
    https: str
    http: str
    cacert: str
    facts: Mapping[str, Any]


@contextlib.contextmanager
def embedded(
    *,
    threads: int,
    cpus: str | None,
    state: Path | None,
    program: Sequence[str] = PROGRAM,
    ready_s: float = _READY_S,
) -> Iterator[Server]:
    """`trilane serve` on free ports of 127.0.0.1, for as long as the context, or we, live."""
    command = [
        *program,
        *("--port", "0", "--tls-port", "0", "--bind", "127.0.0.1", "-t", str(threads)),
        *("--exit-with-parent", "--format", "json"),
        *(("--cpu", cpus) if cpus else ()),
        *(("--state", str(state)) if state else ()),
    ]
    with _running(command) as (process, errors):
        ready = _ready(process, errors, ready_s)
        yield Server(
            pid=int(ready["pid"]),
            https=str(ready["https"]),
            http=str(ready["http"]),
            cacert=str(ready["cacert"]),
            facts={"software": "trilane serve", "threads": threads, "cpus": cpus},
        )


class Meter:
    """CPU of a server process between two instants (`runner.ServerMeter`)."""

    def __init__(self, pid: int, cpus: int) -> None:
        self._cpus = cpus
        self._tasks = Path(f"/proc/{pid}/task")
        self._stat = Path(f"/proc/{pid}/stat")
        self._before: tuple[float, dict[str, float], float] | None = None

    def start(self) -> None:
        """A run begins."""
        self._before = self._read()

    def stop(self, run: Json | None) -> Mapping[str, Any] | None:
        """What the server spent since `start`; None when it is gone or the run left no count."""
        before, after = self._before, self._read()
        if before is None or after is None or run is None:
            return None
        wall = after[0] - before[0]
        threads = {task: cpu - before[1].get(task, 0.0) for task, cpu in after[1].items()}
        # Counters of live threads are exact to the nanosecond but die with their thread; the
        # process total keeps the dead ones at 10 ms resolution.
        ended = before[1].keys() - after[1].keys()
        cpu_s = after[2] - before[2] if ended else sum(threads.values())
        requests = run["requests"]["started"] + run["requests"]["warmup"]["started"]
        return {
            "cpu_s": cpu_s,
            "requests": requests,
            "cpu_us_per_request": 1e6 * cpu_s / requests if requests else None,
            "busy": self._busy(run, threads, wall),
        }

    def _busy(self, run: Json, threads: Mapping[str, float], wall: float) -> float | None:
        """How near the server was to its limit: its busiest thread, or all of them on its CPUs."""
        loaded = run["plan"]["duration_s"]
        if loaded is None:
            return None
        # The client's start and end are no load; a run never lasts longer than the wall saw.
        seconds = min(float(loaded + run["plan"]["warmup_s"]), wall)
        share = max(max(threads.values(), default=0.0), sum(threads.values()) / self._cpus)
        return min(1.0, share / seconds)

    def _read(self) -> tuple[float, dict[str, float], float] | None:
        try:
            threads = {}
            for task in self._tasks.iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    threads[task.name] = _thread_seconds(task)
            fields = self._stat.read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return None
        # proc(5): utime and stime are fields 14 and 15; the split starts at field 3.
        return time.monotonic(), threads, (int(fields[11]) + int(fields[12])) / _TICKS


def _thread_seconds(task: Path) -> float:
    try:
        return int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except FileNotFoundError:
        # A kernel without CONFIG_SCHED_INFO.
        fields = (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.contextmanager
def _running(
    command: Sequence[str],
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    # Errors go to a file: a pipe that nobody reads on would stop the server when it is full.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
        )
        try:
            yield process, errors
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[bytes], errors: IO[bytes], ready_s: float) -> Json:
    deadline = time.monotonic() + ready_s
    line = b""
    stdout = process.stdout
    if stdout is None:
        raise ServerFailed("the embedded server has no output to read")
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while b"\n" not in line:
            if len(line) > _LINE_LIMIT:
                raise ServerFailed("the embedded server talks, but not about being ready")
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise ServerFailed(f"the embedded server was not ready within {ready_s:g} s")
            got = os.read(stdout.fileno(), 4096)
            if not got:
                raise ServerFailed(
                    f"the embedded server did not start: {_last_words(process, errors)}"
                )
            line += got
    try:
        ready = json.loads(line.partition(b"\n")[0])
    except ValueError:
        ready = None
    if not isinstance(ready, dict) or ready.get("schema") != READY_SCHEMA or not ready.get("ready"):
        raise ServerFailed(f"the embedded server said {line[:200]!r} instead of being ready")
    return ready


def _last_words(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_STOP_S)
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    if lines:
        return lines[-1].removeprefix("trilane: ").removeprefix("error: ")
    return f"exit code {process.returncode}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Close its stdin (`--exit-with-parent`), then ask, then insist."""
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for action in (process.terminate, process.kill):
        try:
            process.wait(timeout=_STOP_S)
            break
        except subprocess.TimeoutExpired:
            action()
    process.wait()
    if process.stdout:
        process.stdout.close()

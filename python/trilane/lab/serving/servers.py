"""Targets that a race starts itself: the embedded server and its readiness."""

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

from trilane import _core
from trilane.lab.machine import facts as machine
from trilane.lab.model.documents import Json
from trilane.lab.process import told

PROGRAM = (sys.executable, "-m", "trilane", "serve")
READY_SCHEMA = "trilane.serve/1"
_READY_S = 20.0
# The default of `trilane serve --h2-streams`.
_STREAMS = 1000
_STOP_S = 5.0
_LINE_LIMIT = 65_536


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
    log: Path | None = None,
) -> Iterator[Server]:
    """`trilane serve` on free ports of 127.0.0.1, for as long as the context, or we, live.

    Its messages go to the end of `log`, or nowhere when it comes up. It needs no guard, unlike
    other servers: it ends by itself when its stdin closes.
    """
    command = [
        *program,
        *("--port", "0", "--tls-port", "0", "--bind", "127.0.0.1", "-t", str(threads)),
        *("--exit-with-parent", "--format", "json"),
        *(("--cpu", cpus) if cpus else ()),
        *(("--state", str(state)) if state else ()),
    ]
    with _running(command, log) as (process, errors):
        ready = _ready(process, errors, ready_s)
        yield Server(
            pid=int(ready["pid"]),
            https=str(ready["https"]),
            http=str(ready["http"]),
            cacert=str(ready["cacert"]),
            facts={
                "software": "trilane serve",
                "version": _core.version,
                "revision": _core.revision or None,
                "build_profile": _core.build_profile,
                "threads": threads,
                "cpus": cpus,
                "max_concurrent_streams": _STREAMS,
                "keepalive_requests": None,
                # Its sockets ask for none.
                "tcp_congestion_control": machine.tcp_congestion_control(),
            },
        )


@contextlib.contextmanager
def _running(
    command: Sequence[str], log: Path | None
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    # Errors go to a file: a pipe that nobody reads on would stop the server when it is full.
    with log.open("a+b") if log else tempfile.TemporaryFile() as errors:
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
    return told(errors.read()) or f"exit code {process.returncode}"


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

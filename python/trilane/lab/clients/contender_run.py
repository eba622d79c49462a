"""One run of a contender: the protocol of docs/contenders.md, watched from outside."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trilane.lab.clients.contender_messages import Ready, Result
from trilane.lab.clients.observe import Ending, Instant, Watch
from trilane.lab.experiment import places
from trilane.lab.machine.meter import Meter
from trilane.lab.model.documents import Json
from trilane.lab.processes import supervisor
from trilane.lab.processes.proc import LOOPBACK, Interface
from trilane.lab.processes.supervisor import Child, ProcessFailed
from trilane.lab.processes.words import how_ended

# Python and its libraries on a cold disk; the first start of a Go or Node program.
READY_S = 60.0
_REPORT_S = 60.0


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
    begin: Instant
    end: Instant
    peak_rss: int | None

    @property
    def cpu_s(self) -> float:
        """CPU from the first request to the last response, with that of ended children."""
        return max(0.0, self.end.cpu_s - self.begin.cpu_s) + self.ending.children_s

    @property
    def wire_bytes(self) -> int | None:
        """Bytes through the network interface while the workload ran."""
        if self.begin.wire is None or self.end.wire is None:
            return None
        return self.end.wire - self.begin.wire


def run(
    command: Sequence[str],
    plan: Json,
    *,
    log: Path,
    limit_s: float,
    cpus: Sequence[int] | None = None,
    interface: Interface = LOOPBACK,
    meter: Meter | None = None,
) -> Delivered:
    """Run a contender once; `meter` is started when the workload begins, and ended with it.

    Raises:
        RunFailed: it does not deliver in time.
    """
    started = time.monotonic()
    try:
        with (
            supervisor.started(
                command, pipes=True, log=log, environment=environment(), cpus=cpus
            ) as child,
            closing(Watch(child, interface, begun=started)) as watch,
        ):
            return _converse(child, watch, plan, limit_s, meter)
    except ProcessFailed as error:
        raise RunFailed(f"it {error}") from error


def environment() -> dict[str, str]:
    """Variables of a contender: ours, and the harness where its Python looks for modules."""
    modules = [str(places.shipped("contenders") / "harness")]
    if ours := os.environ.get("PYTHONPATH"):
        modules.append(ours)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(modules)}


def _converse(
    child: Child, watch: Watch, plan: Json, limit_s: float, meter: Meter | None
) -> Delivered:
    ready_s = READY_S + limit_s * bool(plan["warmup"])
    child.write_line(json.dumps(plan).encode(), ready_s)
    ready = _told(child, "ready", Ready, ready_s)
    if plan["processes"] or plan["repeat_processes"]:
        watch.follow_memory()
    if meter:
        meter.start()
    begin = watch.instant()
    child.write_line(b"start", limit_s)
    _event(child, "done", limit_s)
    end = watch.instant()
    if meter:
        meter.end()
    peak = watch.peak()
    result = _told(child, "result", Result, _REPORT_S)
    child.close_stdin()
    if not child.wait(_REPORT_S):
        raise RunFailed(f"it did not end within {_REPORT_S:g} s of its result")
    ending = watch.end()
    if ending.code != 0:
        raise RunFailed(child.with_words(f"it ended with {how_ended(ending.code)}"))
    return Delivered(ready, result, ending, begin, end, peak)


def _event(child: Child, name: str, limit_s: float) -> Json:
    """The next event of the contender, which must be `name`; raises RunFailed, ProcessFailed."""
    line = child.read_line(repr(name), limit_s)
    try:
        event: Any = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise RunFailed(child.with_words(f"it said {line[:200]!r} instead of {name!r}"))
    if event.get("event") == "cannot":
        raise Declined(str(event.get("reason") or "it did not say why"))
    if event.get("event") != name:
        raise RunFailed(child.with_words(f"it said {event.get('event')!r} instead of {name!r}"))
    return event


def _told(child: Child, name: str, message: type[_Message], limit_s: float) -> _Message:
    """The next event of the contender, which must be `name` and hold what `message` wants."""
    event = _event(child, name, limit_s)
    try:
        return msgspec.convert(event, message)
    except msgspec.ValidationError as error:
        raise RunFailed(f"its {name!r} is wrong: {error}") from error

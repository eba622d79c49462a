"""Runs: each a fresh `trilane load` process, in blocks of random order, none of which can hang."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from trilane.lab.blocks import shuffled
from trilane.lab.clients.engine_run import server_flags
from trilane.lab.model.arm import Arm
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample, ServerCost
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.processes.words import how_ended, told

PROGRAM = (sys.executable, "-m", "trilane", "load")
# Exit codes of `trilane load` that come with a result: ok, gate breached, measurement invalid.
_WITH_RESULT = frozenset({0, 3, 4})
_WRONG_USAGE = 2
# What a run may take beyond warm-up and duration: start, handshakes, drain, report.
_SLACK_S = 15.0
_PROBE_TIMEOUT_S = 5.0


class Misused(ValueError):
    """`trilane load` refused its flags; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the order: an arm, and which of its runs in the block."""

    arm: Arm
    block: int
    slot: int
    position: int


class ServerMeter(Protocol):
    """Something that knows what a server spent."""

    def start(self) -> None:
        """A run begins."""

    def stop(self, run: Run | None) -> ServerCost | None:
        """The run has ended: what the server spent on it."""


@dataclass(frozen=True, slots=True)
class Load:
    """How `trilane load` is called: everything but the arm."""

    url: str
    flags: Sequence[str]
    """Flags that all runs and the probe share (`-H`, `--cacert` ...)."""
    duration_s: float
    warmup_s: float
    timeout_s: float
    threads: int
    cpus: str | None = None
    congestion_control: str | None = None
    """For the sockets of the TCP arms; QUIC brings its own."""
    server_pids: Sequence[int] = ()
    """Processes of the server, where it runs on this machine."""
    program: Sequence[str] = PROGRAM

    def command(self, arm: Arm, file: Path) -> list[str]:
        """Argument vector of one measured run."""
        return [
            *self._start(arm.version),
            *("-c", str(arm.connections), "-m", str(arm.streams), "-t", str(self.threads)),
            *("-d", f"{self.duration_s:g}s", "--warmup", f"{self.warmup_s:g}s"),
            *("--timeout", f"{self.timeout_s:g}s"),
            *(("--cpu", self.cpus) if self.cpus else ()),
            *server_flags(self.server_pids),
            *("--format", "json", "-o", str(file)),
        ]

    def probe_command(self, arm: Arm, file: Path) -> list[str]:
        """Argument vector that asks whether the target serves the arm at all: one request."""
        return [
            *self._start(arm.version),
            *("-c", "1", "-m", "1", "-n", "1", "--warmup", "0s"),
            *("--timeout", f"{min(self.timeout_s, _PROBE_TIMEOUT_S):g}s"),
            *("--format", "json", "-o", str(file)),
        ]

    @property
    def limit_s(self) -> float:
        """Seconds after which a run is stopped."""
        return self.warmup_s + self.duration_s + self.timeout_s + _SLACK_S

    def _start(self, version: str) -> list[str]:
        control: list[str] = []
        if self.congestion_control and version != "h3":
            control = ["--congestion-control", self.congestion_control]
        return [*self.program, self.url, f"--{version}", *control, *self.flags]


@dataclass(slots=True)
class Outcome:
    """All runs made."""

    samples: list[Sample] = field(default_factory=list)
    interrupted: bool = False
    stopped: str | None = None
    """Why the blocks ended early without being interrupted."""


def order(arms: Sequence[Arm], blocks: int, seed: int) -> list[list[Entry]]:
    """Every arm once per block, one of them twice (A/A), shuffled by `seed`."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    named = {arm.name: arm for arm in arms}
    return [
        [
            Entry(named[name], block, slot, position)
            for position, (name, slot) in enumerate(shuffled(list(named), block, chance, aa=True))
        ]
        for block in range(blocks)
    ]


def probe(load: Load, arm: Arm, folder: Path) -> str | None:
    """Why the target does not answer over this arm's version; None when it does."""
    file = folder / f"probe-{arm.name}.json"
    limit = min(load.timeout_s, _PROBE_TIMEOUT_S) * 2 + _SLACK_S
    run, problem = _execute(load.probe_command(arm, file), file, limit)
    if run is None:
        return problem
    if run.requests.ok > 0:
        return None
    for kind, failure in run.requests.failures.items():
        hint = "; if that is what you want, type --expect-status CODE" if kind == "status" else ""
        return f"{failure.example}{hint}"
    reasons = run.validity.reasons
    return reasons[0].text if reasons else "no request succeeded"


def run_blocks(
    load: Load,
    planned: Sequence[Sequence[Entry]],
    folder: Path,
    meter: ServerMeter | None,
    progress: Callable[[Entry], None],
) -> Outcome:
    """Make every run of every block; Ctrl-C ends it with what is there."""
    outcome = Outcome()
    try:
        for block in planned:
            for entry in block:
                progress(entry)
                outcome.samples.append(_measure(load, entry, folder, meter))
            made = outcome.samples[-len(block) :]
            if all(sample.run is None for sample in made):
                outcome.stopped = made[-1].problem
                break
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def _measure(load: Load, entry: Entry, folder: Path, meter: ServerMeter | None) -> Sample:
    name = f"{entry.block + 1:02}-{entry.position + 1}-{entry.arm.name}.json"
    file = folder / name
    if meter:
        meter.start()
    run, problem = _execute(load.command(entry.arm, file), file, load.limit_s)
    server = meter.stop(run) if meter else None
    return Sample(
        arm=entry.arm.name,
        block=entry.block,
        slot=entry.slot,
        position=entry.position,
        run=run,
        problem=problem,
        file=f"{folder.name}/{name}" if run else None,
        server=server,
    )


def _execute(command: Sequence[str], file: Path, limit_s: float) -> tuple[Run | None, str | None]:
    """The result that the process wrote, or why there is none."""
    try:
        done = supervisor.finished(command, limit_s=limit_s)
    except ProcessFailed as error:
        return None, f"the run {error}"
    if done.code == _WRONG_USAGE:
        raise Misused(told(done.errors))
    if done.code not in _WITH_RESULT:
        return None, told(done.errors) or (
            f"the run ended with {how_ended(done.code)} and no message"
        )
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run), None
    except (OSError, ValueError) as error:
        return None, f"the run left no readable result: {error}"

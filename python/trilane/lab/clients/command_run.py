"""Arms of kind `command`: a command of the user's, timed from outside.

A run starts the command again and again, one process after the other, until it has been run as
often as asked, or for as long; the run tells the mean of them. A command that is one program with
plain arguments is started as it is, any other by `/bin/sh`, whose start is then part of what is
measured.

Wall clock
    From before the process is started until it has ended.
CPU
    User and system time of the process and of all descendants that were waited for (`wait4(2)`):
    what a process leaves behind when it ends is killed, and its CPU is not known.
Memory
    The largest resident set of any one process, as `wait4(2)` tells it where that is above ours,
    which every process begins with; below it, and for the sum of a process and its descendants, the
    largest that `observe.Watch` saw.

A command that ends with another code than 0 fails its run, and the end of what it printed is told.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilane.lab.clients import as_run
from trilane.lab.clients.as_run import Asked
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.observe import Ending, Watch
from trilane.lab.experiment.vocabulary import COMMAND
from trilane.lab.machine.meter import Meter
from trilane.lab.model.contender import Client, ContextSwitches, Process, Repetitions, Wire
from trilane.lab.model.run import SCHEMA, Plan, Request, Requests, Run, Target
from trilane.lab.model.traffic import Cost, Latency, Rate
from trilane.lab.model.validity import Reason, RunValidity
from trilane.lab.processes import launch, proc, supervisor
from trilane.lab.processes.supervisor import Child, Late, ProcessFailed
from trilane.lab.processes.words import how_ended
from trilane.lab.targets.servers import Counted, ServerFailed
from trilane.lab.targets.target_config import fill

# Characters that mean something to a shell; quotes are among them.
_SHELL: Final = re.compile(r"[^\w\s./:,@%+^-]")
_TAIL: Final = 12
_LONGEST_TAIL: Final = 4096


def argument_vector(command: str, folder: str) -> list[str]:
    """What is started for a command: itself where no shell is needed for it, else a shell."""
    words = command.split()
    if words and not _SHELL.search(command) and "=" not in words[0]:
        # What is no program may be a word of the shell's own.
        place = str(Path(folder, words[0])) if os.sep in words[0] else words[0]
        program = launch.find_program(place)
        if program is not None:
            return [program, *words[1:]]
    return ["/bin/sh", "-c", command]


@dataclass(frozen=True, slots=True)
class _Execution:
    """One process that ran to its end."""

    ending: Ending
    peak_rss: int | None


@dataclass(frozen=True, slots=True)
class _Series:
    """What is run again and again."""

    asked: Asked
    command: str
    """With its placeholders filled in."""

    def made(self, *, seconds: float | None, count: int) -> list[_Execution]:
        """So many executions one after the other, or those that begin within so many seconds."""
        begun = time.monotonic()
        made: list[_Execution] = []
        while (
            not made or time.monotonic() - begun < seconds
            if seconds is not None
            else len(made) < count
        ):
            self._prepare()
            made.append(self._once())
        return made

    def _prepare(self) -> None:
        prepare = self.asked.workload.prepare
        if prepare is not None:
            folder = self.asked.arm.folder or ""
            _run(argument_vector(prepare, folder), prepare, self.asked, watched=False)

    def _once(self) -> _Execution:
        words = argument_vector(self.command, self.asked.arm.folder or "")
        return _run(words, self.command, self.asked, watched=True)


def run(
    asked: Asked,
    *,
    meter: Meter | None = None,
    count: Callable[[], Counted] | None = None,
) -> Run:
    """One run of the arm's command; `meter` is started when it begins.

    `count` asks its server what that has counted.

    Raises:
        RunFailed: it did not start, did not end in time, or ended with another code than 0; or the
            server did not say what it has counted.
    """
    arm, workload, setting = asked.arm, asked.workload, asked.setting
    values = {"origin": setting.origin, "cacert": setting.cacert or ""}
    series = _Series(asked, fill(arm.command or "", values))
    if workload.warmup_s:
        series.made(seconds=workload.warmup_s, count=1)
    if meter is not None:
        meter.start()
    interface = setting.interface
    try:
        counted, carried = count() if count else None, interface.carried_bytes()
        made = series.made(seconds=workload.duration_s, count=workload.count or 1)
        if meter is not None:
            meter.end()
        served = _since(counted, count() if count else None)
        wire = None if carried is None else (interface.carried_bytes() or carried) - carried
    except ServerFailed as error:
        raise RunFailed(str(error)) from error
    return _run_of(asked, series.command, made, served, wire)


def _since(before: Counted | None, after: Counted | None) -> Counted | None:
    if before is None or after is None:
        return None
    return Counted(
        requests=after.requests - before.requests,
        connections=after.connections - before.connections,
    )


def _run(words: Sequence[str], command: str, asked: Asked, *, watched: bool) -> _Execution:
    limit_s = asked.workload.timeout_s
    begun = time.monotonic()
    try:
        with (
            supervisor.started(
                words,
                cwd=Path(asked.arm.folder or "."),
                environment=launch.of_one_tree(),
                cpus=asked.setting.cpus,
            ) as child,
            closing(Watch(child, asked.setting.interface, begun=begun)) as watch,
        ):
            if watched:
                watch.follow_memory()
            ending, peak = watch.until_end(limit_s)
            if ending.code != 0:
                raise RunFailed(f"{command} ended with {how_ended(ending.code)}{_tail(child)}")
    except Late:
        raise RunFailed(
            f"{command} did not end within {limit_s:g} s: --timeout says how long it may take"
        ) from None
    except ProcessFailed as error:
        raise RunFailed(f"{command} {error}") from error
    return _Execution(ending, _peak(ending, peak))


def _peak(ending: Ending, seen: int | None) -> int | None:
    """Peak memory in bytes of what was seen and of what the kernel tells."""
    largest = ending.usage.ru_maxrss * 1024
    ours = proc.peak_resident_bytes(os.getpid()) or 0
    if largest > ours:
        return max(largest, seen or 0)
    return seen


def _tail(child: Child) -> str:
    """The last lines that it printed, each on a line of its own; empty where it printed nothing."""
    said = child.output()[-_LONGEST_TAIL:] + child.errors()[-_LONGEST_TAIL:]
    lines = [line.rstrip() for line in said.decode(errors="replace").splitlines()]
    told = [line for line in lines if line.strip()][-_TAIL:]
    return "".join(f"\n  {line}" for line in told)


def _run_of(
    asked: Asked,
    command: str,
    made: Sequence[_Execution],
    served: Counted | None,
    wire_bytes: int | None,
) -> Run:
    process = _mean(made)
    walls = [each.ending.wall_s for each in made]
    window_s = sum(walls)
    user_s, system_s = process.user_s * len(made), process.system_s * len(made)
    # A command whose server does not count has its executions for requests.
    requests = len(made) if served is None else served.requests
    counted = None if served is None or not served.requests else served.requests
    workload, setting = asked.workload, asked.setting
    reasons = []
    if served is not None and not served.requests:
        text = "the server counted no request: the command has to ask {url}"
        reasons.append(Reason(code="nothing_ok", verdict="invalid", text=text))
    return Run(
        schema=SCHEMA,
        trilane=as_run.program(),
        started_at=asked.started_at,
        interrupted=False,
        client=Client(name=COMMAND, library=command, library_version="", runtime=""),
        target=Target.of_client(
            asked.url or command, connections=None if served is None else served.connections
        ),
        plan=Plan(
            connections=None,
            streams=None,
            threads=None,
            model="closed",
            rate_per_s=None,
            requests=None,
            duration_s=workload.duration_s,
            warmup_s=workload.warmup_s,
            timeout_s=workload.timeout_s,
            cpus=None if setting.cpus is None else list(setting.cpus),
            request=Request(
                method="GET", urls=1, header_fields=None, header_bytes=None, body_bytes=0
            ),
            strategy=asked.arm.strategy,
            workload=command,
        ),
        requests=Requests.of_client(requests, requests, 0, {}),
        status={},
        rate=Rate(
            requests_per_s=requests / window_s if window_s else 0.0,
            goodput_bytes_per_s=0.0,
            window_s=window_s,
        ),
        latency=Latency.of_client(None),
        connections=None,
        phases=None,
        bytes=None,
        cost=Cost(
            user_s=user_s,
            system_s=system_s,
            cpu_us_per_request=1e6 * (user_s + system_s) / counted if counted else None,
            server_cpu_us_per_request=None,
            context_switches=process.context_switches,
            syscalls=None,
            peak_rss_bytes=process.peak_rss_bytes,
            # Of one CPU: how many the client could use is not known.
            busy=[min(1.0, (user_s + system_s) / window_s)] if counted and window_s else [],
        ),
        elapsed_s=window_s,
        process=process,
        repetitions=Repetitions(count=len(made), mean_s=window_s / len(made), seconds=walls),
        wire=None
        if wire_bytes is None or not counted
        else Wire(bytes=wire_bytes, requests=counted, interface=setting.interface.name),
        windows=[],
        validity=RunValidity.of(reasons),
    )


def _mean(made: Sequence[_Execution]) -> Process:
    """The mean of the executions; of their memory the largest."""
    each = [one.ending.process(one.peak_rss) for one in made]
    number = len(each)
    wall_s = sum(one.wall_s for one in each) / number
    user_s = sum(one.user_s for one in each) / number
    system_s = sum(one.system_s for one in each) / number
    return Process(
        wall_s=wall_s,
        startup_s=0.0,
        user_s=user_s,
        system_s=system_s,
        cpu_percent=100 * (user_s + system_s) / wall_s if wall_s else None,
        context_switches=ContextSwitches(
            voluntary=sum(one.context_switches.voluntary for one in each),
            involuntary=sum(one.context_switches.involuntary for one in each),
        ),
        peak_rss_bytes=max((one.peak_rss_bytes or 0 for one in each), default=0) or None,
    )

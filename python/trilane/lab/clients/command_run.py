"""Arms of kind `command`: a command of the user's, timed from outside.

A run starts the command again and again, one process after the other, until it has been run as
often as asked, or for as long; the run tells the mean of them. Runs of a block take turns, an
execution each (`in_turn`). A command that is one program with plain arguments is started as it is,
any other by `/bin/sh`, whose start is then part of what is measured.

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
import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trilane import hiding
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
    took_s: float = 0.0
    """With what prepared it."""


class Series:
    """A run of an arm's command, made execution by execution."""

    def __init__(
        self,
        asked: Asked,
        *,
        meter: Meter | None = None,
        count: Callable[[], Counted] | None = None,
    ) -> None:
        """`meter` is started when it begins; `count` asks its server what that has counted."""
        values = {"origin": asked.setting.origin, "cacert": asked.setting.cacert or ""}
        self._asked = asked
        self._command = fill(asked.arm.command or "", values)
        self._meter = meter
        self._count = count
        self._made: list[_Execution] = []
        self._counted: Counted | None = None
        self._carried: int | None = None

    def begin(self) -> None:
        """Warm up, and begin to count; raises `RunFailed`."""
        workload = self._asked.workload
        begun = time.monotonic()
        while workload.warmup_s and time.monotonic() - begun < workload.warmup_s:
            self._once()
        if self._meter is not None:
            self._meter.start()
        self._counted = self._counts()
        self._carried = self._asked.setting.interface.carried_bytes()

    @property
    def complete(self) -> bool:
        """Whether it has been run as often as asked, or for as long."""
        workload = self._asked.workload
        if workload.duration_s is None:
            return len(self._made) >= (workload.count or 1)
        own_s = sum(each.took_s for each in self._made)
        return bool(self._made) and own_s >= workload.duration_s

    def step(self) -> None:
        """Run it once more; raises `RunFailed`."""
        self._made.append(self._once())

    def finish(self, *, alone: bool) -> Run:
        """The run; `alone`: nothing else was run meanwhile. Raises `RunFailed`."""
        if self._meter is not None:
            self._meter.end()
        served = _since(self._counted, self._counts())
        before, after = self._carried, self._asked.setting.interface.carried_bytes()
        wire = None if before is None or after is None or not alone else after - before
        return _run_of(self._asked, hiding.text(self._command), self._made, served, wire)

    def _counts(self) -> Counted | None:
        try:
            return self._count() if self._count else None
        except ServerFailed as error:
            raise RunFailed(str(error)) from error

    def _once(self) -> _Execution:
        begun = time.monotonic()
        asked = self._asked
        folder = asked.arm.folder or ""
        prepare = asked.workload.prepare
        if prepare is not None:
            _run(argument_vector(prepare, folder), prepare, asked, watched=False)
        made = _run(argument_vector(self._command, folder), self._command, asked, watched=True)
        return replace(made, took_s=time.monotonic() - begun)


def run(series: Series) -> Run:
    """One run, from its begin to its end.

    Raises:
        RunFailed: a command did not start, did not end in time, or ended with another code than 0;
            or the server did not say what it has counted.
    """
    series.begin()
    while not series.complete:
        series.step()
    return series.finish(alone=True)


def in_turn(all_series: Sequence[Series], chance: random.Random) -> list[Run | RunFailed]:
    """The runs of all, of which each makes one execution in each round, in random order.

    So all meet the same machine, however its speed changes from one second to the next.
    """
    failed: dict[int, RunFailed] = {}

    def tried(number: int, do: Callable[[], None]) -> None:
        try:
            do()
        except RunFailed as error:
            failed[number] = error

    for number, series in enumerate(all_series):
        tried(number, series.begin)
    while left := [
        number
        for number, series in enumerate(all_series)
        if number not in failed and not series.complete
    ]:
        chance.shuffle(left)
        for number in left:
            tried(number, all_series[number].step)
    ended: list[Run | RunFailed] = []
    for number, series in enumerate(all_series):
        try:
            ended.append(failed.get(number) or series.finish(alone=len(all_series) == 1))
        except RunFailed as error:
            ended.append(error)
    return ended


def _since(before: Counted | None, after: Counted | None) -> Counted | None:
    if before is None or after is None:
        return None
    return Counted(
        requests=after.requests - before.requests,
        connections=after.connections - before.connections,
    )


def _run(words: Sequence[str], command: str, asked: Asked, *, watched: bool) -> _Execution:
    # What is told of it.
    command = hiding.text(command)
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

"""From an arm to one finished run: the contender or the engine, its server, its checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from trilane.lab.clients import (
    as_run,
    command_run,
    contender_run,
    engine_run,
    go_bench,
    syscalls,
)
from trilane.lab.clients.cluster import Cluster
from trilane.lab.clients.command_run import Series
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.engine_run import EnginePlan, Misused
from trilane.lab.clients.go_bench import Module
from trilane.lab.clients.plan import contender_plan
from trilane.lab.clients.reference import UNREAD, Reference
from trilane.lab.clients.turns import Turns
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.vocabulary import COMMAND, GO_BENCH
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.machine.meter import Meter
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.contender import Syscalls
from trilane.lab.model.documents import Json
from trilane.lab.model.measures import LATENCIES, P99, SYSCALLS
from trilane.lab.model.run import Run
from trilane.lab.model.sample import ServerCost
from trilane.lab.model.validity import Reason, RunValidity
from trilane.lab.processes import supervisor
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.proc import LOOPBACK, Interface
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.storage import store
from trilane.lab.targets import target_config
from trilane.lab.targets.calls import Call
from trilane.lab.targets.servers import Counted

# What a run may take beyond its own work: start-up, handshakes, report.
_SLACK_S = 30.0
# Nobody waits longer for one run; a workload that needs more says so by its duration.
_LONGEST_S = 1800.0
_PROBE_S = 1.0
_PROBE_REQUESTS = 2
# A server that is not ours may drop what it does not speak instead of refusing it.
_PROBE_TIMEOUT_S = 5.0
_TRIES = 4
ORIGIN = "origin"
"""The placeholder of a command that stands for scheme, host and port of its server."""
# Of a search, which ends long before.
_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """Where an arm runs: its server as the client sees it."""

    origin: str
    cacert: str | None = None
    meter: Meter | None = None
    reference: Reference = UNREAD
    cpus: Sequence[int] | None = None
    place: Place = HERE
    """Where the client runs."""
    interface: Interface = LOOPBACK
    """The network interface there."""
    congestion_control: str | None = None
    """Of TCP or QUIC, as the version has it; None for what they take by themselves."""
    body_file: Path | None = None
    """What a workload whose body is a file sends."""
    call: Call | None = None
    """How the server is asked, for a workload of kind `call`."""
    benchmark: tuple[Module, Path] | None = None
    """The module of the arm's benchmark, and the test binary that has it."""
    server_pids: Sequence[int] = ()
    """Processes of the server; none where it is not ours, or on another machine than the client."""
    count: Callable[[], Counted] | None = None
    """Asks the server what it has counted; None where it does not count."""
    cluster: Cluster | None = None
    """The machines that make the load; None: this one does."""
    connect_to: str | None = None
    """Host and port that stand for those of the origin where the client runs."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Makes the runs of one arm at one point."""

    form: Form
    arm: ArmSpec
    setting: Setting
    command: Callable[[], Sequence[str]] | None
    """Starts the contender; None for the engine."""
    folder: Path

    def probe(self, of_status: str = "", tried: list[Run] | None = None) -> str | None:
        """Why the arm cannot run at all, after a short try; None when it can.

        `of_status` is said behind a status that is not a success; the try is added to `tried`.

        Raises:
            Misused: the engine does not take the flags of the arm.
        """
        form = self.form
        workload = replace(form.workload, warmup_requests=0, warmup_s=0.0, repeat=1)
        least = 1 if is_command(self.arm) else _PROBE_REQUESTS
        if self.setting.cluster is not None:
            # Each machine is to reach the server, by the connections that it will have.
            least = self.arm.in_flight
        elif self.command is None and workload.kind == "urls":
            least = 1
            if not self.setting.server_pids:
                timeout_s = min(workload.timeout_s, _PROBE_TIMEOUT_S)
                workload = replace(workload, timeout_s=timeout_s)
        if self.command is not None and self.arm.strategy == "load":
            # A load generator of others', such as wrk, knows no number of requests.
            workload = replace(workload, duration_s=_PROBE_S, count=None)
        else:
            count = min(least, workload.count or least)
            workload = replace(workload, duration_s=None, count=count)
        arm = replace(self.arm.with_in_flight(min(self.arm.in_flight, least)), rate=None)
        short = replace(self, form=replace(form, workload=workload), arm=arm)
        # Two requests read other bodies than the whole workload does.
        setting = replace(self.setting, meter=None, reference=UNREAD)
        try:
            run, _ = replace(short, setting=setting).run(f"probe-{self.arm.name}")
        except Misused:
            raise
        except RunFailed as error:
            return str(error)
        if tried is not None:
            tried.append(run)
        # The engine's probe has but one request, which is ok or not; on a cluster it has several.
        valid = not is_engine(self.arm) and run.validity.verdict != "invalid"
        complete = self.setting.cluster is None or not _incomplete(run)
        if complete and (run.requests.ok or valid):
            return None
        examples = [
            failure.example + (of_status if kind == "status" else "")
            for kind, failure in run.requests.failures.items()
        ]
        return "; ".join(examples or [reason.text for reason in run.validity.reasons])

    def run(self, name: str) -> tuple[Run, ServerCost | None]:
        """One run, and what the server spent on it; raises `RunFailed`."""
        if self.setting.benchmark is not None:
            run, server = self._benchmark(name, *self.setting.benchmark)
        elif is_command(self.arm):
            run = command_run.run(self.series())
            server = self.cost(run)
        elif self.command is None:
            run, server = self._engine(name)
        else:
            run, server = self._contender(name, self.setting.place.command(self.command()))
        own = self.setting.benchmark is not None or is_command(self.arm)
        one_machine = not own and self.setting.cluster is None
        if SYSCALLS.name in self.form.measures and one_machine:
            run = structs.replace(run, syscalls=self._syscalls())
        return run, server

    @property
    def _limit_s(self) -> float:
        workload = self.form.workload
        if workload.duration_s is not None:
            own = workload.duration_s + workload.warmup_s + workload.timeout_s
            if workload.search:
                return _SLACK_S + own * _MOST_RUNS
            # Go tries how many iterations fill the time, and may overshoot.
            return _SLACK_S + own * (_TRIES if self.setting.benchmark is not None else 1)
        return _LONGEST_S

    def _benchmark(self, name: str, module: Module, binary: Path) -> tuple[Run, ServerCost | None]:
        meter = self.setting.meter
        if meter:
            meter.start()
        run = go_bench.run(
            module,
            binary,
            self.arm,
            self.form.workload,
            log=self.folder / f"{name}.log",
            limit_s=self._limit_s,
        )
        cost = None if meter is None else meter.stop(run)
        # The server is a part of the process that was measured.
        return run, cost and structs.replace(cost, cpu_us_per_request=None, busy=None)

    def series(self) -> Series:
        """A run of the arm's command, which has not begun; `cost` tells its server's afterwards."""
        workload, setting = self.form.workload, self.setting
        asked = as_run.Asked(self.arm, workload, setting, setting.origin, store.now())
        return Series(asked, meter=setting.meter, count=setting.count)

    def _contender(self, name: str, command: Sequence[str]) -> tuple[Run, ServerCost | None]:
        workload, setting = self.form.workload, self.setting
        meter = setting.meter
        started_at = store.now()
        delivered = contender_run.run(
            command,
            self.contender_plan(workload),
            log=self.folder / f"{name}.log",
            limit_s=self._limit_s,
            cpus=setting.cpus,
            interface=setting.interface,
            meter=meter,
        )
        url = setting.origin + (setting.call.path if setting.call else first_path(self.form))
        run = as_run.run_of(as_run.Asked(self.arm, workload, setting, url, started_at), delivered)
        return run, meter.stop(run, delivered.cpu_s) if meter else None

    def contender_plan(self, workload: Workload) -> Json:
        """What the arm's contender is told to do, in place of the form's workload this one."""
        latency = not LATENCIES.isdisjoint(self.form.measures)
        return contender_plan(self.arm, workload, self.setting, latency=latency)

    def _engine(self, name: str) -> tuple[Run, ServerCost | None]:
        self.watch()
        log = self.folder / f"{name}.log"
        run = engine_run.run(self._engine_plan(), log=log, limit_s=self._limit_s)
        server = self.cost(run)
        return self._judged(run), server

    @contextmanager
    def begun(self, name: str, turns: Turns) -> Iterator[Callable[[], Run]]:
        """A run of the engine that takes turns with others, and what waits for its end.

        Beginning and waiting raise `RunFailed`. `watch` comes before it, and `cost` once all have
        ended.
        """
        plan = replace(self._engine_plan(), turns=turns)
        limit_s = turns.takes_s(self._limit_s)
        with engine_run.begun(plan, log=self.folder / f"{name}.log", limit_s=limit_s) as finish:
            yield lambda: self._judged(finish())

    def watch(self) -> None:
        """Begin to watch what the server costs."""
        if self.setting.meter is not None:
            self.setting.meter.start()

    def cost(self, run: Run) -> ServerCost | None:
        """What the server spent on a run of the engine, since `watch`, or of a command."""
        server = None if self.setting.meter is None else self.setting.meter.stop(run)
        # What it spent in a search is of many runs; of a command nobody knows how many requests it
        # made, if it made any, where the server does not count.
        uncounted = is_command(self.arm) and self.setting.count is None
        if server is not None and (run.capacity is not None or uncounted):
            server = structs.replace(server, cpu_us_per_request=None, busy=None)
        return server

    def _judged(self, run: Run) -> Run:
        run = judge_samples(run, self.form.measures)
        if self.setting.call is not None:
            run = judge_body(run, self.setting.reference)
        return run

    def _engine_plan(self) -> EnginePlan:
        setting = self.setting
        workload = self.form.workload
        paths = setting.reference.paths if workload.kind != "urls" else workload.paths
        if setting.call is not None:
            paths = [setting.call.path]
        return EnginePlan(self.arm, workload, paths or [first_path(self.form)], setting)

    def _syscalls(self) -> Syscalls | None:
        """System calls per request, counted in two runs of their own."""

        def count(requests: int) -> int:
            log = self.folder / f"strace-{self.arm.name}.log"
            if self.command is None:
                with engine_run.prepared(self._engine_plan(), requests) as (command, _file):
                    return syscalls.count(
                        lambda prefix: _finish([*prefix, *command], log, self._limit_s)
                    )
            workload = replace(self.form.workload, count=requests, duration_s=None)
            command = self.setting.place.command(self.command())
            plan = self.contender_plan(workload)
            return syscalls.count(
                lambda prefix: contender_run.run(
                    [*prefix, *command], plan, log=log, limit_s=self._limit_s
                )
            )

        most = self.form.workload.count
        if self.form.workload.kind == "crawl" and most is not None:
            # A site has no more pages than that: the second run must find twice as many.
            most = max(1, most // 2)
        return syscalls.per_request(count, most)


def first_path(form: Form) -> str:
    """The first path that a run asks for."""
    workload = form.workload
    if workload.kind == "index":
        return workload.index or "/"
    if workload.kind == "crawl":
        return workload.start or "/"
    # A call has the path that its server wants, a benchmark none.
    return workload.paths[0] if workload.paths else ""


def is_engine(arm: ArmSpec) -> bool:
    """Whether the arm is run by our own load engine."""
    return arm.client == ENGINE


def is_benchmark(arm: ArmSpec) -> bool:
    """Whether the arm is a benchmark of Go's."""
    return arm.client == GO_BENCH


def is_command(arm: ArmSpec) -> bool:
    """Whether the arm is a command, timed from outside."""
    return arm.client == COMMAND


def is_contender(arm: ArmSpec) -> bool:
    """Whether the arm is run by a client of the folder of contenders."""
    return not (is_engine(arm) or is_benchmark(arm) or is_command(arm))


def has_server(arm: ArmSpec) -> bool:
    """Whether the arm asks a server of the testbed's."""
    if is_command(arm):
        return ORIGIN in target_config.placeholders(arm.command or "")
    return not is_benchmark(arm)


def _incomplete(run: Run) -> bool:
    """Whether a machine of a cluster did not do its part."""
    lost = any(reason.code == "worker_lost" for reason in run.validity.reasons)
    return lost or run.requests.failed > 0


def _finish(command: Sequence[str], log: Path, limit_s: float) -> None:
    try:
        supervisor.finished(command, log=log, limit_s=limit_s)
    except ProcessFailed as error:
        raise RunFailed(f"the run {error}") from error


def judge_samples(run: Run, measures: Collection[str]) -> Run:
    """The run, which too few responses for a p99 make suspect only where one is compared."""
    if P99.name in measures:
        return run
    told = [reason for reason in run.validity.reasons if reason.code != "few_for_p99"]
    return structs.replace(run, validity=RunValidity.of(told, run.validity.bound), answer=None)


def judge_body(run: Run, reference: Reference) -> Run:
    """The run, invalid where the engine read another answer than the clients that checked it."""
    body = run.target.body
    if body is None or not reference.digests or not run.requests.ok:
        return run
    (_, crc), size = reference.digests[0], reference.sizes[0]
    if (body.bytes, body.crc32) == (size, f"{crc:08x}"):
        return run
    text = (
        f"the answer had {body.bytes} bytes with CRC-32 {body.crc32}, but when it was checked "
        f"{size} bytes with {crc:08x}"
    )
    return run.doubted(Reason(code="bodies", verdict="invalid", text=text))

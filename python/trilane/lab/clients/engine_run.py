"""One run of an arm by our own load engine, beside which the contenders are shown."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from trilane import hiding
from trilane.interpreter import TRILANE
from trilane.lab.clients import search_run
from trilane.lab.clients.cluster import Cluster
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.observe import Watch
from trilane.lab.clients.plan import header_fields
from trilane.lab.clients.turns import Turns
from trilane.lab.experiment import places
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.contender import Client, Process, Wire
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search
from trilane.lab.model.traffic import Phases
from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.processes.words import how_ended, told
from trilane.lab.targets.calls import DEFINITION

if TYPE_CHECKING:
    from trilane.lab.clients.executor import Setting

PROGRAM = (*TRILANE, "load")
# Exit codes of `trilane load` that come with a result: ok, gate breached, measurement invalid.
_WITH_RESULT = frozenset({0, 3, 4})
_WRONG_USAGE = 2


class Misused(RunFailed):
    """`trilane load` refused its flags; the message says what to type."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What the engine is to do."""

    arm: ArmSpec
    workload: Workload
    paths: Sequence[str]
    """Every path, in the order of the workload: the engine does not read bodies for links."""
    setting: Setting
    turns: Turns | None = None
    """Where runs take turns, those of this one."""

    @property
    def requests(self) -> int | None:
        """Requests of one run; None when a duration ends it."""
        if self.workload.duration_s is not None:
            return None
        if self.workload.kind in {"urls", "call"}:
            return (self.workload.count or len(self.paths)) * self.workload.repeat
        return len(self.paths) * self.workload.repeat

    def command(self, file: Path, body: Path | None, requests: int | None = None) -> list[str]:
        """Argument vector; `requests` in place of the workload's own number."""
        return [*PROGRAM, *self.arguments(body, requests), *("--format", "json", "-o", str(file))]

    def arguments(self, body: Path | None, requests: int | None = None) -> list[str]:
        """What follows `trilane load`, but for where the result goes."""
        arm, workload, setting = self.arm, self.workload, self.setting
        connections, streams = shape(arm)
        count, control = requests or self.requests, setting.congestion_control
        ends = (
            ["-n", str(count), "--warmup", "0s"]
            if count is not None
            else ["-d", f"{workload.duration_s:g}s", "--warmup", f"{workload.warmup_s:g}s"]
        )
        own = setting.call.headers if setting.call else ()
        fields = [f"{name}: {value}" for name, value in header_fields(arm, workload, own)]
        coded = any(field.lower().startswith("accept-encoding:") for field in fields)
        if not coded and not self._is_grpc and arm.gzip is not None:
            # As the contenders say it, so that all ask for the same.
            fields.append(f"accept-encoding: {'gzip' if arm.gzip else 'identity'}")
        return [
            *(
                setting.origin.rstrip("/") + path
                for path in ([""] if self._is_grpc else self.paths)
            ),
            f"--{arm.version}",
            *workload.flags,
            *arm.flags,
            *(("--check-body",) if workload.check_body else ()),
            *("-c", str(connections), "-m", str(streams)),
            *self._threads(connections),
            *ends,
            # A count of requests is a try whether the arm can run at all.
            *(("--search", ",".join(workload.search)) if workload.search and not count else ()),
            *(("-R", f"{arm.rate:.10g}") if arm.rate is not None else ()),
            *("--timeout", f"{workload.timeout_s:g}s"),
            *self._asked(body),
            *(word for field in fields for word in ("-H", field)),
            *(("--cacert", setting.cacert) if setting.cacert else ()),
            *(("--cpu", ",".join(map(str, setting.cpus))) if setting.cpus else ()),
            *server_flags(setting.server_pids),
            *(self.turns.flags if self.turns is not None else ()),
            *(("--congestion-control", control) if control else ()),
            *(("--connect-to", setting.connect_to) if setting.connect_to else ()),
        ]

    def _threads(self, connections: int) -> list[str]:
        """How many threads share the connections.

        On a cluster those of all machines together; one is what nobody asks many machines for, and
        stands for as many as they have processors.
        """
        threads = min(self.arm.threads or 1, connections) if self.arm.strategy == "load" else 1
        if self.setting.cluster is not None and threads == 1:
            return []
        return ["-t", str(threads)]

    @property
    def _is_grpc(self) -> bool:
        return self.setting.call is not None and self.setting.call.message is not None

    def _asked(self, body: Path | None) -> list[str]:
        """Method and content, or the method of the service and its message."""
        call = self.setting.call
        if call is None or call.message is None:
            method = self.workload.method if call is None else call.method
            if call is None and method == "GET" and not body:
                # What the engine sends unless it is told; a race says it among its flags.
                return []
            return ["-X", method, *(("-b", f"@{body}") if body else ())]
        definition = places.shipped("proto") / DEFINITION
        schema = ["--proto", str(definition), "--proto-path", str(places.shipped("proto"))]
        return [
            *("--grpc", call.path.removeprefix("/"), "-b", call.message),
            # Otherwise the engine asks the server what its methods look like.
            *(schema if definition.is_file() else ()),
            *(("--grpc-mode", self.arm.mode) if self.arm.mode else ()),
        ]


def server_flags(pids: Sequence[int]) -> list[str]:
    """Flags that have the engine tell the CPU time of the server's processes, window by window.

    Where one of them has ended there are none: the sum of the others would be taken for all.
    """
    if not all(map(proc.exists, pids)):
        return []
    return [word for pid in pids for word in ("--server-pid", str(pid))]


def shape(arm: ArmSpec) -> tuple[int, int]:
    """Connections and streams with which the engine does what an arm's strategy means."""
    if arm.strategy == "load":
        return arm.connections or 1, arm.streams or 1
    if arm.strategy == "serial":
        return 1, 1
    if arm.version == "h1":
        return arm.in_flight, 1
    connections = arm.connections or 1
    return connections, max(1, arm.in_flight // connections)


@contextmanager
def _body(plan: EnginePlan) -> Iterator[tuple[Path | None, Path]]:
    """The file that requests send, if any, and a folder, for as long as the context."""
    with tempfile.TemporaryDirectory(prefix="trilane-") as name:
        folder = Path(name)
        body, call = plan.setting.body_file, plan.setting.call
        content = plan.workload.body if call is None else call.body
        if content is not None:
            body = folder / "body"
            body.write_bytes(content)
        yield body, folder


@contextmanager
def prepared(plan: EnginePlan, requests: int | None = None) -> Iterator[tuple[list[str], Path]]:
    """Argument vector of a run and the file of its result, for as long as the context."""
    with _body(plan) as (body, folder):
        file = folder / "run.json"
        command = hiding.aside(plan.command(file, body, requests), folder / "fields")
        yield plan.setting.place.command(command), file


def run(plan: EnginePlan, *, log: Path, limit_s: float) -> Run:
    """Run the engine once; raises `RunFailed` when it leaves no result."""
    if plan.setting.cluster is not None:
        return _as_client(_on_cluster(plan, plan.setting.cluster), plan)
    with begun(plan, log=log, limit_s=limit_s) as finish:
        return finish()


@contextmanager
def begun(plan: EnginePlan, *, log: Path, limit_s: float) -> Iterator[Callable[[], Run]]:
    """A run that has begun, on this machine, and what waits for its end.

    The run does not outlive the context.

    Raises:
        RunFailed: the engine does not start; waiting raises it when the engine leaves no result.
    """
    interface = plan.setting.interface
    with prepared(plan) as (command, file), ExitStack() as stack:
        started = time.monotonic()
        wire = interface.carried_bytes()
        try:
            child = stack.enter_context(supervisor.started(command, log=log))
        except ProcessFailed as error:
            raise RunFailed(f"the run {error}") from error
        watch = stack.enter_context(closing(Watch(child, interface, begun=started)))

        def finish() -> Run:
            try:
                ending, peak = watch.until_end(limit_s)
            except ProcessFailed as error:
                raise RunFailed(f"the run {error}") from error
            if ending.code not in _WITH_RESULT:
                words = told(child.errors())
                refused = Misused if ending.code == _WRONG_USAGE else RunFailed
                raise refused(words or f"the run ended with {how_ended(ending.code)}")
            after = interface.carried_bytes()
            made = _result(plan, file.read_bytes)
            return _finished(plan, made, ending.process(peak), wire, after)

        yield finish


def _finished(
    plan: EnginePlan, run: Run, process: Process, wire: int | None, after: int | None
) -> Run:
    """The run with what was seen of it from outside."""
    interface, requests = plan.setting.interface, run.requests
    crossed = None
    # A search is many runs, of which it tells the requests of one; what runs that take turns send
    # is on the interface together.
    if wire is not None and after is not None and run.capacity is None and plan.turns is None:
        crossed = Wire(
            bytes=after - wire,
            requests=requests.ok + requests.failed + requests.warmup.started,
            interface=interface.name,
        )
    return _as_client(replace(run, process=process, wire=crossed), plan)


def _on_cluster(plan: EnginePlan, cluster: Cluster) -> Run:
    """The run of all machines; it has no one process that could be watched from outside."""
    with _body(plan) as (body, _folder):
        told = cluster.measure(plan.arguments(body))
    return _result(plan, lambda: told)


def _as_client(run: Run, plan: EnginePlan) -> Run:
    """The run with what is told of every client under test."""
    program = run.trilane
    return replace(
        run,
        elapsed_s=run.rate.window_s + _setup_s(run.phases),
        client=Client(
            name=ENGINE,
            library="trilane",
            library_version=program.version,
            runtime=f"native, {program.profile}",
        ),
        plan=replace(run.plan, strategy=plan.arm.strategy, in_flight=plan.arm.in_flight),
    )


def _result(plan: EnginePlan, read: Callable[[], bytes]) -> Run:
    """The run that the engine wrote, or the one that stands for a search; raises `RunFailed`."""
    try:
        content = read()
        if plan.workload.search and plan.requests is None:
            return search_run.run_of(msgspec.json.decode(content, type=Search))
        return msgspec.json.decode(content, type=Run)
    except (OSError, ValueError) as error:
        raise RunFailed(f"the run left no readable result: {error}") from error


def _setup_s(phases: Phases | None) -> float:
    """What the slowest connection took to be ready.

    The engine begins to count when its connections are; a client under test makes them within its
    elapsed time.
    """
    if phases is None:
        return 0.0
    steps = (phases.dns, phases.connect, phases.tls, phases.quic)
    return sum(step.max or 0.0 for step in steps if step is not None)

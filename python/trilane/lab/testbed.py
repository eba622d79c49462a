"""What an experiment needs while it runs: its clients made ready, its servers, its networks."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from trilane.lab.asked import CannotRun
from trilane.lab.clients import call_reference, contenders, go_bench, reference
from trilane.lab.clients.cluster import Cluster, connect_to
from trilane.lab.clients.contenders import BadContender, Contender, ContenderFailed
from trilane.lab.clients.executor import (
    Setting,
    has_server,
    is_benchmark,
    is_command,
    is_contender,
)
from trilane.lab.clients.go_bench import Module
from trilane.lab.clients.plan import header_fields
from trilane.lab.clients.reference import UNREAD, NoReference, Reference
from trilane.lab.experiment import places
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.vocabulary import COMMAND, MESSAGES
from trilane.lab.experiment.workload import ArmSpec, Workload, write_body
from trilane.lab.machine import facts as machine
from trilane.lab.machine.meter import Meter
from trilane.lab.model.arm import EMBEDDED, Arm
from trilane.lab.model.documents import Json
from trilane.lab.model.network import OnNetwork
from trilane.lab.model.sent_by import SentBy
from trilane.lab.network import emulated
from trilane.lab.network.emulated import Emulated, NetworkFailed
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.proc import LOOPBACK
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.storage import store
from trilane.lab.storage.journal import Journal
from trilane.lab.targets import running, servers
from trilane.lab.targets.calls import Call
from trilane.lab.targets.running import Target, TargetFailed
from trilane.lab.targets.target_config import PLAIN

OwnRun: TypeAlias = tuple[str, int] | tuple[()]
"""Arm and slot of the one run that has a server for itself; empty where all share it."""


class Unavailable(CannotRun):
    """An arm cannot run here; the message says why."""


@contextlib.contextmanager
def _available(*lacking: type[Exception]) -> Iterator[None]:
    """Make what an arm needs; these errors say why it cannot be had here.

    Raises:
        Unavailable: one of them came.
    """
    try:
        yield
    except lacking as error:
        raise Unavailable(str(error)) from error


@dataclass(frozen=True, slots=True, order=True)
class _Wanted:
    """A server that arms share."""

    name: str
    network: str
    """Congestion control on the emulated network that it is on; empty where it is on none."""
    flags: tuple[str, ...]
    """Further ones of the embedded server."""
    run: OwnRun = ()

    def __str__(self) -> str:
        parts = ["the embedded server" if self.name == EMBEDDED else running.called(self.name)]
        if self.flags:
            parts.append(f"with {' '.join(self.flags)}")
        if self.network:
            parts.append("on an emulated network")
        if self.network not in {"", emulated.CUBIC}:
            parts.append(f"with {self.network}")
        return " ".join(parts)

    @property
    def folder(self) -> str:
        """Where its log is, below that of the form."""
        words = [self.network and f"on-network-{self.network}", *self.flags, *map(str, self.run)]
        return "_".join(word.strip("-") for word in words if word)


@dataclass(slots=True)
class Testbed:
    """Open servers, network and clients of one experiment, each made when it is first asked for."""

    form: Form
    state: Path | None
    logs: Path
    server_cpus: str | None
    client_cpus: Sequence[int] | None
    pinning: str
    congestion_control: str | None
    """Of the engine's TCP sockets on this machine; None for the kernel's."""
    cluster: Cluster | None
    """The machines that make the load, and may have the servers; None: all is on this one."""
    _stack: contextlib.ExitStack
    _clients: Mapping[str, Contender]
    skipped: dict[str, str] = field(default_factory=dict)
    """Arms that cannot run here by their names, and why."""
    _targets: dict[_Wanted, Target] = field(default_factory=dict)
    _networks: dict[str, Emulated] = field(default_factory=dict)
    """By congestion control at both ends: each is shared by arms, one after the other."""
    _references: dict[tuple[str, Workload, tuple[tuple[str, str], ...]], Reference] = field(
        default_factory=dict
    )
    _body_files: dict[int, Path] = field(default_factory=dict)
    """By size."""
    _calls: dict[tuple[str, ...], Reference] = field(default_factory=dict)
    """What calls answer, checked: by server, origin, version and format."""
    _modules: dict[tuple[str, tuple[str, ...]], Module] = field(default_factory=dict)
    """Go modules that are built, by name."""

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        form: Form,
        state: Path | None,
        journal: Journal,
        say: Callable[[str], None],
        cluster: Cluster | None = None,
    ) -> Iterator[Testbed]:
        """The testbed for a form whose clients and servers exist (`names.check`).

        Arms that cannot run here are skipped, each with its reason.

        Raises:
            Unavailable: the description of a contender is wrong.
        """
        journal.logs.mkdir(mode=store.PRIVATE_FOLDER, exist_ok=True)
        server_cpus, client_cpus, pinning = _pinning(form, cluster)
        spoken = {arm.version for arm in form.arms}
        # As in a race: QUIC brings CUBIC, and another controller under TCP is another experiment.
        # What other machines may use is not known: they say so when they begin.
        cubic = "h3" in spoken and (
            cluster is not None or machine.may_use_congestion_control("cubic")
        )
        with _available(BadContender):
            clients = _contenders(form)
        with contextlib.ExitStack() as stack:
            testbed = cls(
                form=form,
                state=state,
                logs=journal.logs,
                server_cpus=server_cpus,
                client_cpus=client_cpus,
                pinning=pinning,
                congestion_control=form.congestion_control or ("cubic" if cubic else None),
                cluster=cluster,
                _stack=stack,
                _clients=clients,
            )
            testbed._make_ready(say)
            yield testbed

    def command(self, arm: ArmSpec) -> Callable[[], Sequence[str]] | None:
        """How to start the arm's client; None for our engine."""
        if not is_contender(arm):
            return None
        client = self._clients[arm.client]

        def command() -> Sequence[str]:
            with _available(ContenderFailed):
                return client.command()

        return command

    @contextlib.contextmanager
    def own_servers(self, runs: Sequence[tuple[ArmSpec, int]]) -> Iterator[None]:
        """For each of these runs, an arm and a slot, a server of its own while the context lasts.

        Raises:
            Unavailable: one does not start.
        """
        with contextlib.ExitStack() as stack:
            own = {
                self._wanted(arm, (arm.name, slot)): arm
                for arm, slot in runs
                if has_server(arm) and running.is_ours(arm.server)
            }
            try:
                for key, arm in own.items():
                    self._targets[key] = self._started(key, arm, stack)
                yield
            finally:
                for key in own:
                    self._targets.pop(key, None)

    def setting(self, form: Form, arm: ArmSpec, run: OwnRun = ()) -> Setting:
        """Where an arm runs, or the `run` of it that has `own_servers`; raises `Unavailable`."""
        if not has_server(arm):
            return self._alone(arm)
        target = self._target(arm, run)
        origin = target.origins[_spoken(arm)]
        network = self._network(arm) if arm.network else None
        meter = None
        if target.pids:
            cpus = self.form.threads if self.server_cpus else None
            ours = [network.pid] if network is not None else []
            if run:
                others = (each.pids for each in self._targets.values() if each is not target)
                ours += [pid for pids in others for pid in pids]
            # An end of a network is on this machine, and a process there tells no more.
            place = target.place if self.cluster is not None else HERE
            usable = len(place.call(machine.usable_cpus))
            meter = Meter(list(target.pids), cpus or usable, ours, place)
        return Setting(
            origin=origin,
            cacert=target.cacert,
            meter=meter,
            reference=self._reference(target, arm, form.workload),
            cpus=self.client_cpus,
            place=HERE if network is None else network.client,
            interface=LOOPBACK if network is None else network.interface,
            congestion_control=self._of_engine(arm),
            body_file=self._body_file(form.workload),
            call=_call(arm),
            server_pids=target.pids if self.cluster is None else (),
            count=target.count,
            cluster=self.cluster,
            connect_to=self._connect_to(target, origin),
        )

    def _connect_to(self, target: Target, origin: str) -> str | None:
        """Where the machines of a cluster find a server of ours, which they know by our URL."""
        if self.cluster is None or target.pid is None:
            return None
        return connect_to(self.cluster.host, origin)

    def _alone(self, arm: ArmSpec) -> Setting:
        """A benchmark has no server but its own, a command may have none."""
        benchmark = None
        if is_benchmark(arm):
            module = self._module(arm.server, arm.server_flags)
            with _available(go_bench.NotReady):
                benchmark = module, go_bench.binary(module, arm.benchmark or "")
        return Setting(
            origin="",
            cacert=None,
            # Of no server: it tells what other programs took meanwhile.
            meter=Meter([], len(machine.usable_cpus())),
            reference=UNREAD,
            cpus=None,
            benchmark=benchmark,
        )

    def origin_of(self, arm: ArmSpec) -> str:
        """Scheme, host and port that the arm's client is given; empty where it is its server."""
        return self._origin(arm, _spoken(arm)) if has_server(arm) else ""

    def server_name(self, arm: ArmSpec) -> str | None:
        """The server of an arm where it is ours."""
        target = self._targets.get(self._wanted(arm))
        return target.name if target is not None and target.pid is not None else None

    def facts(self) -> Json:
        """What is known of the servers, by name."""
        shared = Counter(wanted.name for wanted in self._targets)
        known = {
            wanted.name if shared[wanted.name] == 1 else str(wanted): dict(target.facts)
            for wanted, target in self._targets.items()
        }
        return next(iter(known.values())) if len(known) == 1 else known

    def sent_by(self, arms: Sequence[ArmSpec]) -> dict[str, SentBy]:
        """By which congestion control the servers of these arms send; without those of none."""
        return {
            arm.name: running.sent_by(target, arm.version)
            for arm in arms
            if has_server(arm) and (target := self._targets.get(self._wanted(arm))) is not None
        }

    def modules(self) -> list[Path]:
        """Folders of the Go modules whose benchmarks are measured."""
        return sorted({module.folder for module in self._modules.values()})

    def begin_run(self, arm: ArmSpec, block: int) -> None:
        """Make the network of the arm what it is in this block, and count what it does.

        Raises:
            NetworkFailed: it is gone.
        """
        if arm.network:
            self._network(arm).begin(arm.network, block)

    def end_run(self, arm: ArmSpec) -> OnNetwork | None:
        """What the network did since `begin_run`; None where the arm has none.

        Raises:
            NetworkFailed: it is gone.
        """
        return self._network(arm).end() if arm.network else None

    def _make_ready(self, say: Callable[[str], None]) -> None:
        form = self.form
        self._make_benchmarks_ready(say)
        self._make_clients_ready(say)
        for arm in form.arms:
            lacking = None if arm.name in self.skipped else lacks(arm)
            if lacking:
                self.skipped[arm.name] = lacking
        usable = [a for a in form.arms if has_server(a) and a.name not in self.skipped]
        for wanted in sorted(set(map(self._wanted, usable))):
            arms = [arm for arm in usable if self._wanted(arm) == wanted]
            if running.is_ours(wanted.name):
                say(f"starting {wanted}")
            try:
                self._target(arms[0])
            except Unavailable as error:
                self.skipped.update((arm.name, str(error)) for arm in arms)

    def _make_clients_ready(self, say: Callable[[str], None]) -> None:
        others = {arm.client for arm in self.form.arms if is_contender(arm)}
        for name in sorted(others):
            arms = [arm for arm in self.form.arms if arm.client == name]
            client = self._clients[name]
            reason = client.missing()
            if reason is None:
                say(f"making {name} ready")
                try:
                    client.command()
                except ContenderFailed as error:
                    reason = str(error)
            for arm in arms:
                lacking = reason or client.lacks(arm.version, arm.strategy, arm.rate)
                if lacking:
                    self.skipped[arm.name] = lacking

    def _make_benchmarks_ready(self, say: Callable[[str], None]) -> None:
        benchmarks = [arm for arm in self.form.arms if is_benchmark(arm)]
        for name, flags in sorted({(arm.server, arm.server_flags) for arm in benchmarks}):
            say(f"building the benchmarks of {' '.join([name, *flags])}")
            try:
                self._module(name, flags)
            except Unavailable as error:
                arms = [a for a in benchmarks if (a.server, a.server_flags) == (name, flags)]
                self.skipped.update((arm.name, str(error)) for arm in arms)

    def _module(self, name: str, flags: tuple[str, ...]) -> Module:
        key = (name, flags)
        if key not in self._modules:
            folders = (place / name for place in places.servers())
            with _available(go_bench.NotReady):
                folder = next(filter(Path.is_dir, folders))
                self._modules[key] = go_bench.ready(name, folder, flags)
        return self._modules[key]

    def _body_file(self, workload: Workload) -> Path | None:
        """The file that a workload sends, made once: while it is new it is in memory as well."""
        size = workload.file_bytes
        if size is None:
            return None
        if size not in self._body_files:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trilane-")))
            self._body_files[size] = folder / "body"
            write_body(self._body_files[size], size)
        return self._body_files[size]

    def _target(self, arm: ArmSpec, run: OwnRun = ()) -> Target:
        key = self._wanted(arm, run)
        if key not in self._targets:
            self._targets[key] = self._started(key, arm, self._stack)
        return self._targets[key]

    def _started(self, key: _Wanted, arm: ArmSpec, stack: contextlib.ExitStack) -> Target:
        name = arm.server
        place = self._network(arm).server if arm.network else HERE
        with _available(TargetFailed):
            config = running.find(name)
            # HTTP/1.1 as well, over which an independent client reads what is served.
            there = set(config.origins)
            arms = (a for a in self.form.arms if a.server == name and has_server(a))
            spoken = set(map(_spoken, arms))
            asked = spoken & there or spoken
            wanted = {*asked, *({"h1"} & there)}
            return stack.enter_context(self._opened(key, place, sorted(wanted)))

    def _opened(
        self, key: _Wanted, place: Place, versions: Sequence[str]
    ) -> contextlib.AbstractContextManager[Target]:
        cluster, threads = self.cluster, self.form.threads
        if cluster is not None and cluster.servers_elsewhere and running.is_ours(key.name):
            return cluster.opened(key.name, versions=versions, threads=threads, flags=key.flags)
        usable = len(machine.usable_cpus())
        # Clients on other machines leave all processors to the server.
        share = max(1, usable // 2) if cluster is None else usable
        return running.open_target(
            key.name,
            place=place,
            state=self.state,
            folder=self.logs / key.folder,
            cpus=self.server_cpus,
            threads=threads or (1 if self.server_cpus else share),
            versions=versions,
            bind=servers.LOCAL if cluster is None else servers.ANYWHERE,
            flags=key.flags,
        )

    def _network(self, arm: ArmSpec) -> Emulated:
        control = arm.congestion_control or self.form.congestion_control or emulated.CUBIC
        if control not in self._networks:
            with _available(NetworkFailed):
                made = self._stack.enter_context(emulated.opened(control))
            self._networks[control] = made
        return self._networks[control]

    def _of_engine(self, arm: ArmSpec) -> str | None:
        """What the engine is told: of TCP on a network its end says it, of QUIC nobody else."""
        if arm.version == "h3":
            return arm.congestion_control
        return None if arm.network else self.congestion_control

    def _wanted(self, arm: ArmSpec, run: OwnRun = ()) -> _Wanted:
        control = arm.congestion_control
        flags = arm.server_flags
        if arm.server == EMBEDDED and arm.version == "h3" and control not in {None, emulated.CUBIC}:
            flags = (*flags, "--quic-congestion", control)
        network = control or self.form.congestion_control or emulated.CUBIC if arm.network else ""
        return _Wanted(arm.server, network, flags, run)

    def _checked_call(self, target: Target, arm: ArmSpec) -> Reference:
        origin, message = self._origin(arm, _spoken(arm)), arm.message or ""
        call = _call(arm)
        if call is None:
            raise Unavailable(f"{arm.server} has no calls in {MESSAGES[message]}")
        key = (arm.server, origin, arm.version, message)
        if key not in self._calls:
            with _available(NoReference, ProcessFailed):
                self._calls[key] = target.place.call(
                    call_reference.read,
                    call,
                    message,
                    arm.version,
                    origin,
                    target.trusted_there,
                )
        return self._calls[key]

    def _origin(self, arm: ArmSpec, version: str) -> str:
        return self._target(arm).origins[version]

    def _reference(self, target: Target, arm: ArmSpec, workload: Workload) -> Reference:
        if arm.message is not None:
            return self._checked_call(target, arm)
        if workload.kind == COMMAND:
            # What it asks for is its own affair.
            return UNREAD
        if workload.kind == "urls" and (
            workload.duration_s is not None
            or target.pid is None
            or not running.find(arm.server).http_1
        ):
            # How much is read is not known beforehand, what others serve may change, or the
            # independent client cannot read it.
            return UNREAD
        origin = self._origin(arm, arm.version)
        # The same authority as the client's, because pages may name it; HTTP/1.1 where it is.
        if "h1" in target.origins:
            plain = self._origin(arm, "h1")
            if urlsplit(plain).scheme == urlsplit(origin).scheme:
                origin = plain
        fields = tuple((name, value) for name, value in header_fields(arm, workload))
        key = (origin, workload, fields)
        if key not in self._references:
            with _available(NoReference, ProcessFailed):
                self._references[key] = target.place.call(
                    reference.read,
                    workload,
                    origin,
                    target.trusted_there,
                    dict(fields),
                    self._body_file(workload),
                )
        return self._references[key]


def _spoken(arm: ArmSpec) -> str:
    """The key of the origin that an arm uses."""
    return arm.version if arm.tls else PLAIN


def _call(arm: ArmSpec) -> Call | None:
    """How the arm's server is asked; None where the workload does not make calls."""
    return None if arm.message is None else running.find(arm.server).calls.get(arm.message)


def lacks(arm: ArmSpec) -> str | None:
    """Why the arm's server cannot be asked so; None where it can, or is not known."""
    if not has_server(arm):
        return None
    try:
        config = running.find(arm.server)
    except TargetFailed:
        return None
    if _spoken(arm) not in config.origins:
        plain = " without TLS" if not arm.tls else ""
        return f"{config.name} does not speak {arm.version}{plain}"
    if arm.message is not None and arm.message not in config.calls:
        return f"{config.name} has no calls in {MESSAGES[arm.message]}"
    return None


def _contenders(form: Form) -> dict[str, Contender]:
    """The clients under test; none are looked for where the form has none."""
    if not any(map(is_contender, form.arms)):
        return {}
    return contenders.discover(places.contenders())


def _pinning(form: Form, cluster: Cluster | None) -> tuple[str | None, Sequence[int] | None, str]:
    if not form.pin:
        return None, None, "none (not asked for)"
    if not any(map(has_server, form.arms)) and not any(map(is_benchmark, form.arms)):
        return None, None, "none (there is no server)"
    if cluster is not None:
        return None, None, "none (the workers of a cluster make the load)"
    if not any(is_benchmark(arm) or running.is_ours(arm.server) for arm in form.arms):
        return None, None, "none (the server is not ours to pin)"
    threads = form.threads or 1
    split = machine.split_cpus(threads)
    if split is None:
        needed = f"{2 * threads} CPUs needed, {len(machine.usable_cpus())} here"
        return None, None, f"none ({needed})"
    server, client = split
    text = ",".join(map(str, server))
    return text, client, f"server on CPU {text}, client on CPU {','.join(map(str, client))}"


def arm_of(spec: ArmSpec, testbed: Testbed) -> Arm:
    """An arm of an experiment as a comparison shows it."""
    arm = msgspec.convert(spec, Arm, from_attributes=True)
    network = spec.network or "direct"
    # How many requests a command keeps in flight, if it makes any, it does not tell.
    in_flight = None if is_command(spec) else arm.in_flight
    server = testbed.server_name(spec)
    return structs.replace(arm, server=server, network=network, in_flight=in_flight)

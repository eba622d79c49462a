"""Targets: servers that an experiment aims at, by the name of their folder or by URL.

`open_target` starts the server (or not, where it is somebody else's), waits until it answers over
every version wanted, and stops it at the end. The embedded server comes through here as well.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from trilane.lab.experiment import places
from trilane.lab.machine import facts as machine_facts
from trilane.lab.model.arm import EMBEDDED
from trilane.lab.model.sent_by import SentBy
from trilane.lab.processes import launch, supervisor
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.programs import builds, environments
from trilane.lab.storage import store
from trilane.lab.targets import calls, servers, target_config, target_content, target_ready
from trilane.lab.targets.target_config import BadServer, ServerConfig, fill

HOST = "127.0.0.1"
_FAILURES = (
    builds.BuildFailed,
    environments.EnvironmentFailed,
    launch.LaunchFailed,
    servers.ServerFailed,
)
_ATTEMPTS = 3
# Placeholders that stand for ports that are free.
_PORTS = ("port", "port2", "port3")
_SOFTWARE_S = 30.0
# What would lead a program in its own environment to the modules of ours.
_NOT_INHERITED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONSAFEPATH",
    "VIRTUAL_ENV",
    "NOTIFY_SOCKET",
)
# Of these the embedded server says where they are; no file tells it.
_EMBEDDED = ServerConfig(
    name=EMBEDDED,
    folder=Path(),
    title="The embedded server (hyper and quinn)",
    versions={"h1": "https", "h2": "https", "h2c": "http", "h3": "https"},
    command=("trilane", "serve"),
    ready_path="/hello",
    paths=(
        *("/hello", "/bytes/{n}", "/status/{code}", "/delay/{time}", "/echo", "/headers"),
        *("/books", "/book?id={id}", "/site/", "/drip"),
    ),
    calls=calls.EMBEDDED,
)


class TargetFailed(RuntimeError):
    """The server cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answers."""

    name: str
    origins: Mapping[str, str]
    """Scheme, host and port by version, for the versions wanted."""
    cacert: str | None
    """PEM file, on this machine, of the authority to trust; None for those of the system."""
    pid: int | None = None
    """The server's first process; None where it is not ours."""
    pids: Sequence[int] = ()
    """All its processes, as they were when it was ready."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    log: Path | None = None
    place: Place = HERE
    """Where it runs."""
    count: Callable[[], servers.Counted] | None = None
    """Asks it what it has counted, which raises `ServerFailed`; None where it does not count."""
    cacert_there: str | None = None
    """The file of `cacert` where it runs; None: it is the same."""

    @property
    def trusted_there(self) -> str | None:
        """What a client at `place` trusts."""
        return self.cacert_there or self.cacert


def names() -> list[str]:
    """The servers there are, the embedded one first."""
    found = {
        folder.parent.name
        for place in places.servers()
        for folder in place.glob(f"*/{target_config.FILE}")
    }
    return [EMBEDDED, *sorted(found)]


def find(name_or_url: str) -> ServerConfig:
    """What is known of a server, without starting it; raises TargetFailed."""
    if name_or_url == EMBEDDED:
        return _EMBEDDED
    try:
        if "://" in name_or_url:
            return target_config.at_url(name_or_url)
        for place in places.servers():
            if (place / name_or_url / target_config.FILE).is_file():
                return target_config.load(place / name_or_url)
        if is_folder(name_or_url):
            return target_config.load(Path(name_or_url).absolute())
    except BadServer as error:
        raise TargetFailed(str(error)) from error
    raise TargetFailed(
        f"there is no server {name_or_url!r}: choose from {', '.join(names())}, "
        "a folder with a server.toml, or a URL"
    )


def is_folder(name: str) -> bool:
    """Whether a server is named by its folder, which may lie anywhere."""
    return os.sep in name and (Path(name) / target_config.FILE).is_file()


def called(name_or_url: str) -> str:
    """What people call a server: of a folder that lies anywhere its last part."""
    return Path(name_or_url).name if is_folder(name_or_url) else name_or_url


def is_ours(name_or_url: str) -> bool:
    """Whether the lab would start the server; also of one that there is not."""
    try:
        return find(name_or_url).ours
    except TargetFailed:
        return True


ON_THIS_MACHINE: Final = (
    "listens where its server.toml says, which other machines do not reach: write {bind} there for "
    "the address"
)


def stays_here(name_or_url: str) -> bool:
    """Whether a server is the lab's to start, and no other machine can be let reach it."""
    try:
        config = find(name_or_url)
    except TargetFailed:
        return False
    return config.ours and config.name != EMBEDDED and not config.uses("bind")


@contextlib.contextmanager
def open_target(  # noqa: PLR0913 - what a server needs
    name_or_url: str,
    *,
    state: Path | None,
    folder: Path,
    cpus: str | None,
    threads: int,
    versions: Collection[str] = (),
    place: Place = HERE,
    bind: str = servers.LOCAL,
    flags: Sequence[str] = (),
) -> Iterator[Target]:
    """A server for as long as the context, or the lab, lives.

    `state` is the state folder (None: the user's), `folder` where its log and its scratch files go,
    `cpus` those it may run on, such as "0,2-3" (None: all), `threads` its worker threads or
    processes where it can have more than one. It is ready when it has answered over each of
    `versions` (none: all it has). `place` is where it runs, `bind` the address that
    it listens on (`stays_here`: it has one of its own), `flags` are further ones of the embedded
    server.

    Raises:
        TargetFailed: there is no such server, it is not ours to start at that place, it cannot
            listen on `bind`, it does not speak a version of `versions`, this machine lacks what it
            needs, or it did not become ready.
    """
    config = find(name_or_url)
    wanted = _wanted(config, versions)
    missing = _missing(config)
    if missing is not None:
        raise TargetFailed(missing)
    if bind != servers.LOCAL and stays_here(name_or_url):
        raise TargetFailed(f"{config.name} {ON_THIS_MACHINE}")
    folder.mkdir(parents=True, exist_ok=True)
    machine = _Machine(state, folder, cpus, threads, place, bind)
    with contextlib.ExitStack() as stack:
        # Only what happens at the start is the target's failure.
        try:
            if name_or_url == EMBEDDED:
                target = stack.enter_context(_embedded(wanted, machine, flags))
            elif config.ours:
                target = stack.enter_context(_started(config, wanted, machine))
            else:
                target = _elsewhere(config, wanted, place)
        except _FAILURES as error:
            raise TargetFailed(str(error)) from error
        yield target


@dataclass(frozen=True, slots=True)
class _Machine:
    """Where and with what a server is started."""

    state: Path | None
    folder: Path
    cpus: str | None
    threads: int
    place: Place
    bind: str


def _wanted(config: ServerConfig, versions: Collection[str]) -> list[str]:
    absent = [version for version in versions if version not in config.origins]
    if absent:
        raise TargetFailed(
            f"{config.name} does not speak {' and '.join(absent)}, "
            f"only {', '.join(config.versions)}"
        )
    return list(versions or config.versions)


def _missing(config: ServerConfig) -> str | None:
    programs = [name for name in config.requires if launch.find_program(name) is None]
    if not programs:
        return None
    how = f": {config.install}" if config.install else ""
    return f"{config.name} needs {' and '.join(programs)}, not installed on this machine{how}"


@contextlib.contextmanager
def _embedded(wanted: Sequence[str], machine: _Machine, flags: Sequence[str]) -> Iterator[Target]:
    log, place = machine.folder / f"{EMBEDDED}.log", machine.place
    with servers.embedded(
        threads=machine.threads,
        cpus=machine.cpus,
        state=machine.state,
        log=log,
        place=place,
        bind=machine.bind,
        flags=flags,
    ) as server:
        by_scheme = {"https": server.https, "http": server.http}
        origins = {version: by_scheme[_EMBEDDED.origins[version]] for version in wanted}
        facts = {
            "server": EMBEDDED,
            "versions": list(_EMBEDDED.versions),
            **server.facts,
            "software": f"{server.facts['software']} {server.facts['version']}",
        }
        yield Target(
            name=EMBEDDED,
            origins=origins,
            cacert=server.cacert,
            pid=server.pid,
            pids=[server.pid],
            facts=facts,
            log=log,
            place=place,
            count=server.count,
        )


def _elsewhere(config: ServerConfig, wanted: Sequence[str], place: Place) -> Target:
    if place != HERE:
        raise TargetFailed(
            f"{config.name} runs on its own, and cannot be reached over an emulated network: "
            "describe how to start it in a folder of servers/, or put all on a network: "
            "trilane network run SPEC --server COMMAND --client 'trilane race URL'"
        )
    origins = {version: config.origins[version] for version in wanted}
    if config.ready_path is not None or config.ready_grpc is not None:
        target_ready.wait_for(config, origins, config.cacert)
    return Target(
        name=config.name,
        origins=origins,
        cacert=config.cacert,
        facts={"server": config.name, "ours": False, **config.facts},
    )


def sent_by(target: Target, version: str) -> SentBy:
    """By what a server sends over a version, as it said itself or as is known of it."""
    kind = "quic" if version == "h3" else "tcp"
    told = target.facts.get(f"{kind}_congestion_control")
    # A route's goes before that of a socket, whatever listens there.
    control = told or (target.place.congestion_control if kind == "tcp" else None)
    if control is not None:
        return SentBy(str(control))
    default = None
    if target.pid is not None and kind == "tcp":
        with contextlib.suppress(ProcessFailed):
            default = target.place.call(machine_facts.congestion_control)
    return SentBy(None, default, f"{target.name} {kind}")


@contextlib.contextmanager
def _started(config: ServerConfig, wanted: Sequence[str], machine: _Machine) -> Iterator[Target]:
    values = _values(config, machine)
    environment = _environment(config, values)
    software = _software(config, values, environment)
    log = machine.folder / f"{config.name}.log"
    for attempt in range(_ATTEMPTS):
        values |= {name: str(machine.place.call(_free_port)) for name in _PORTS}
        origins = {version: fill(config.origins[version], values) for version in wanted}
        machine.place.call(_refuse_taken_ports, config, values)
        _write_files(config, values)
        environment = _environment(config, values)
        with launch.launched(
            machine.place.command(_command(config, values)),
            log=log,
            cwd=Path(values["work"]),
            environment=environment,
            cpus=machine.cpus,
            stop_signal=config.stop,
            grace_s=config.stop_timeout_s,
        ) as server:
            try:
                cacert, place = values.get("cacert"), machine.place
                target_ready.wait_for(config, origins, cacert, place, server)
            except target_ready.Died as error:
                # Between our choice of a port and its use another program may have taken it.
                taken = machine.place.call(_somebody_has, values, config)
                if attempt + 1 < _ATTEMPTS and taken:
                    continue
                raise TargetFailed(str(error)) from error
            facts = {
                "server": config.name,
                "software": software,
                "versions": list(config.versions),
                "threads": machine.threads,
                "cpus": machine.cpus,
                **{
                    key: fill(fact, values) if isinstance(fact, str) else fact
                    for key, fact in config.facts.items()
                },
            }
            pids = server.pids()
            yield Target(config.name, origins, cacert, server.pid, pids, facts, log, place)
            return


def _values(config: ServerConfig, machine: _Machine) -> dict[str, str]:
    """The placeholders but for the ports."""
    work = (machine.folder / config.name).absolute()
    work.mkdir(exist_ok=True)
    values = {
        "folder": str(config.folder),
        "work": str(work),
        "interpreter": sys.executable,
        "cpus": machine.cpus or "",
        "threads": str(machine.threads),
        "bind": machine.bind,
    }
    if config.uses("state"):
        values["state"] = str(store.state_folder(machine.state))
    secure = any(origin.startswith("https://") for origin in config.versions.values())
    if secure or config.uses("cert", "key", "cacert", "books", "www"):
        content = target_content.prepare(machine.state, store.cache_folder())
        for name in ("cert", "key", "cacert", "books", "www"):
            values[name] = str(getattr(content, name))
    return values | prepare(config)


def prepare(config: ServerConfig) -> dict[str, str]:
    """Make what a server of ours needs before it starts: its environment, its program.

    Gives the placeholders that stand for them.

    Raises:
        EnvironmentFailed: the environment of its script could not be made.
        BuildFailed: its program could not be built.
    """
    made: dict[str, str] = {}
    if config.script is not None:
        script = config.folder / config.script
        made["python"] = str(environments.interpreter(script))
    if config.build:
        # Servers of the same sources, built alike, share what is built.
        sources = config.sources
        made["build"] = str(builds.built(sources.name, sources, config.build))
    return made


def _environment(config: ServerConfig, values: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return inherited | {name: fill(text, values) for name, text in config.environment.items()}


def _command(config: ServerConfig, values: Mapping[str, str]) -> list[str]:
    command = [fill(word, values) for word in config.command]
    program = launch.find_program(command[0])
    if program is None:
        raise TargetFailed(f"{config.name}: the program {command[0]} is not on this machine")
    return [program, *command[1:]]


def _write_files(config: ServerConfig, values: Mapping[str, str]) -> None:
    for name in config.files:
        text = (config.folder / name).read_text(encoding="utf-8")
        path = Path(values["work"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill(text, values), encoding="utf-8")


def _software(
    config: ServerConfig, values: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """What the software calls itself: the first line that its version command prints."""
    if not config.software:
        return None
    command = [fill(word, values) for word in config.software]
    program = launch.find_program(command[0])
    if program is None:
        return None
    try:
        done = supervisor.finished(
            [program, *command[1:]], limit_s=_SOFTWARE_S, environment=environment
        )
    except ProcessFailed:
        return None
    return next((line.strip() for line in done.said.split("\n") if line.strip()), None)


def _free_port() -> int:
    """A port that is free now, for TCP and UDP alike."""
    for _ in range(64):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        ):
            tcp.bind((HOST, 0))
            port: int = tcp.getsockname()[1]
            try:
                udp.bind((HOST, port))
            except OSError:
                continue
            return port
    raise TargetFailed("no port of 127.0.0.1 is free for TCP and UDP alike")


def _ports(config: ServerConfig, values: Mapping[str, str]) -> set[int]:
    origins = (fill(origin, values) for origin in config.origins.values())
    return {port for origin in origins if (port := urlsplit(origin).port) is not None}


def _is_taken(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A port whose last connections are still closing is free for a server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def _refuse_taken_ports(config: ServerConfig, values: Mapping[str, str]) -> None:
    """Otherwise the answer of another server could be taken for that of this one."""
    chosen = {int(values[name]) for name in _PORTS}
    for port in sorted(_ports(config, values) - chosen):
        if _is_taken(port):
            raise TargetFailed(
                f"{config.name}: port {port} is taken by another program: "
                "stop that, or write {port} in server.toml to have a free one"
            )


def _somebody_has(values: Mapping[str, str], config: ServerConfig) -> bool:
    chosen = {int(values[name]) for name in _PORTS}
    return any(_is_taken(port) for port in _ports(config, values) & chosen)

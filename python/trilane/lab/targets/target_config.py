"""What a `servers/NAME/server.toml` says: how a server starts, what it speaks, when it is ready."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from trilane.lab.experiment.bad_experiment import BadKey
from trilane.lab.experiment.toml_document import Document, Text, UnreadableToml, convert
from trilane.lab.experiment.vocabulary import VERSIONS
from trilane.lab.experiment.words import meant
from trilane.lab.experiment.written import Time
from trilane.lab.processes.supervisor import READY_S
from trilane.lab.targets import calls, grpc_health
from trilane.lab.targets.calls import Call, CallTable

FILE = "server.toml"
PLACEHOLDERS = (
    *("bind", "port", "port2", "port3", "threads", "cpus", "cert", "key", "cacert", "books", "www"),
    *("python", "interpreter", "folder", "build", "work", "state"),
)
# How long a server may take to answer that somebody else has started.
_ELSEWHERE_S = 20.0
PLAIN = "h1-plain"
"""Among the origins of a server: HTTP/1.1 without TLS."""
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9]*)\}")


def placeholders(text: str) -> list[str]:
    """The names in braces that a text holds, whether they stand for something or not."""
    return _PLACEHOLDER.findall(text)


class BadServer(ValueError):
    """A server.toml that makes no sense; the message names file, line, key and the way out."""


class _AsWritten(Struct, frozen=True, kw_only=True):
    """Keys of a server.toml that are taken as they stand there.

    Texts may hold placeholders such as `{port}`.
    """

    plain: Text | None = None
    """Origin of HTTP/1.1 without TLS, where it is not that of h2c."""
    http_1: bool = True
    """Whether it speaks HTTP/1.1, too, as the client does that reads its content beforehand."""
    command: tuple[str, ...] = ()
    """Argument vector; empty for a server that is not ours to start."""
    script: Text | None = None
    """The PEP 723 script in the folder whose environment `{python}` belongs to."""
    build: tuple[tuple[str, ...], ...] = ()
    """Commands, run in the folder of the sources, that make what the command needs in `{build}`."""
    requires: tuple[str, ...] = ()
    """Programs that must be on this machine."""
    install: Text | None = None
    """What to type to get them."""
    paths: tuple[str, ...] = ()
    """What it serves; `{n}`, `{time}` and `{id}` stand for any value."""
    environment: dict[str, Text] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Files of the folder that are copied to `{work}` with their placeholders filled in."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Settings that matter to a measurement, for the ledger."""
    software: tuple[str, ...] = ()
    """Command whose first line of output is the name and version of the software."""
    cacert: Text | None = None
    """PEM file of the authority of a server that is not ours."""
    stop: Text = "SIGTERM"


class ServerConfig(_AsWritten, frozen=True, kw_only=True):
    """A server as its server.toml describes it."""

    name: str
    folder: Path
    title: str
    versions: Mapping[str, str]
    """Origin by version, such as `{"h1": "https://127.0.0.1:{port}"}`."""
    sources: Path = Path()
    """What `build` builds: the folder itself, or one that servers share."""
    ready_path: str | None = None
    """The server is ready when this path answers 200 …"""
    ready_grpc: str | None = None
    """… or when gRPC's health check says that this service is being served."""
    ready_timeout_s: float = READY_S
    stop_timeout_s: float = 5.0
    calls: Mapping[str, Call] = field(default_factory=dict)
    """How the one call of a workload of kind `call` is asked here, by format."""

    @property
    def ours(self) -> bool:
        """Whether the lab starts it."""
        return bool(self.command)

    @property
    def origins(self) -> Mapping[str, str]:
        """Origin by version, and that of `PLAIN` where there is one."""
        plain = self.plain or (self.versions.get("h2c") if self.http_1 else None)
        return self.versions if plain is None else {**self.versions, PLAIN: plain}

    def uses(self, *names: str) -> bool:
        """Whether any of these placeholders stands in what is needed to start it."""
        texts = [*self.command, *self.environment.values(), *self.origins.values()]
        texts += [(self.folder / file).read_text(encoding="utf-8") for file in self.files]
        return any("{" + name + "}" in text for name in names for text in texts)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with the placeholders of `values` filled in; other braces stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def at_url(url: str) -> ServerConfig:
    """A server that is not ours, known by its URL only; raises BadServer."""
    origin = _origin(url)
    if origin is None:
        raise BadServer(f"{url!r} is not the URL of a server; it looks like https://example.org")
    return ServerConfig(name=url, folder=Path(), title=url, versions=_versions_at(origin))


class _ReadyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """When it is ready."""

    path: Text | None = None
    grpc: Text | None = None
    timeout_s: Time | None = field(default=None, name="timeout")


class _ServerTable(_AsWritten, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server.toml, key by key; those that `ServerConfig` has too mean what it says."""

    title: Text | None = None
    url: Text | None = None
    ready: _ReadyTable | None = None
    versions: dict[str, Text] | tuple[str, ...] | None = None
    sources: Text | None = None
    stop_timeout_s: Time = field(default=Time(5.0), name="stop_timeout")
    calls: dict[str, CallTable] = field(default_factory=dict)


def load(folder: Path) -> ServerConfig:
    """Read `folder/server.toml`; raises BadServer."""
    path = folder / FILE
    try:
        document = Document.parse(path.read_bytes())
    except OSError as error:
        raise BadServer(f"{path}: {error.strerror}") from error
    except UnreadableToml as error:
        raise BadServer(f"{path}:{error.line}: {error}") from error
    try:
        return _config(folder, convert(document.values, _ServerTable))
    except BadKey as error:
        raise BadServer(f"{path}:{document.line(error.key)}: {error}") from error


def _config(folder: Path, table: _ServerTable) -> ServerConfig:
    if (table.url is None) == (not table.command):
        raise BadKey("give either command (the lab starts it) or url (it runs already)")
    ready = _ready(table)
    patience_s = READY_S if table.url is None else _ELSEWHERE_S
    versions = _versions(table.versions) if table.url is None else _versions_of(table, table.url)
    if ready.grpc is not None and "h1" in versions:
        raise BadKey("gRPC needs HTTP/2 or HTTP/3: give a path, or leave out h1", ("ready",))
    if table.stop not in signal.Signals.__members__:
        raise BadKey(f"{table.stop!r} is not a signal; it looks like SIGTERM", ("stop",))
    if table.plain is not None and not table.plain.startswith("http://"):
        raise BadKey(f"is without TLS: it needs http://, not {table.plain!r}", ("plain",))
    _check_files(folder, table)
    config = ServerConfig(
        **{name: getattr(table, name) for name in _AsWritten.__struct_fields__},
        name=folder.name,
        folder=folder,
        title=table.title or folder.name,
        versions=versions,
        sources=(folder / table.sources).resolve() if table.sources else folder,
        ready_path=ready.path,
        ready_grpc=ready.grpc,
        ready_timeout_s=patience_s if ready.timeout_s is None else float(ready.timeout_s),
        stop_timeout_s=float(table.stop_timeout_s),
        calls=calls.read(table.calls, ("calls",)),
    )
    _check_placeholders(config)
    return config


def _versions(versions: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    key = ("versions",)
    if not versions or not isinstance(versions, Mapping):
        raise BadKey('say where, such as h1 = "https://127.0.0.1:{port}"', key)
    for version, origin in versions.items():
        _known(version)
        schemes = {"h1": ("https", "http"), "h2c": ("http",)}.get(version, ("https",))
        if not origin.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise BadKey(f"{version} needs {schemes[0]}://, not {origin!r}", key)
    return dict(versions)


def _versions_of(table: _ServerTable, url: str) -> dict[str, str]:
    origin = _origin(url)
    if origin is None:
        raise BadKey(f"{url!r} is not a URL; it looks like https://example.org", ("url",))
    possible = _versions_at(origin)
    names = tuple(possible) if table.versions is None else table.versions
    if isinstance(names, Mapping):
        raise BadKey("takes a list beside url, not a table: put it in brackets", ("versions",))
    for name in names:
        _known(name)
        if name not in possible:
            raise BadKey(f"{name} cannot be had at {url}", ("versions",))
    return dict.fromkeys(names, origin)


def _known(version: str) -> None:
    if version not in VERSIONS:
        raise BadKey(f"{version!r} is not a version{meant(version, VERSIONS)}", ("versions",))


def _ready(table: _ServerTable) -> _ReadyTable:
    ready = table.ready
    if ready is None:
        if table.command:
            raise BadKey('ready is missing: add ready = { path = "/hello" }')
        return _ReadyTable()
    if ready.grpc is not None and len(ready.grpc.encode()) > grpc_health.NAME_LIMIT:
        raise BadKey(f"has more than {grpc_health.NAME_LIMIT} bytes", ("ready", "grpc"))
    if (ready.path is None) == (ready.grpc is None):
        problem = "either a path or a grpc service says that it is ready"
        raise BadKey(problem, ("ready",) if ready.path is None else ("ready", "path"))
    if ready.path is not None and not ready.path.startswith("/"):
        raise BadKey(f"starts with a slash, unlike {ready.path!r}", ("ready", "path"))
    return ready


def _check_files(folder: Path, table: _ServerTable) -> None:
    for key, files in (("script", (table.script,) if table.script else ()), ("files", table.files)):
        for file in files:
            if not (folder / file).is_file():
                raise BadKey(f"{file} is not in {folder}", (key,))
    if table.sources is not None and not (folder / table.sources).is_dir():
        problem = f"{table.sources} is not a folder beside the files of {folder}"
        raise BadKey(problem, ("sources",))


def _check_placeholders(config: ServerConfig) -> None:
    for key, texts in (
        ("command", config.command),
        ("versions", tuple(config.versions.values())),
        ("plain", (config.plain,) if config.plain else ()),
        ("environment", tuple(config.environment.values())),
    ):
        for name in (name for text in texts for name in placeholders(text)):
            if name not in PLACEHOLDERS:
                problem = f"{{{name}}} stands for nothing{meant(name, PLACEHOLDERS)}"
                raise BadKey(problem, (key,))
    if config.uses("python") and config.script is None:
        raise BadKey("script is missing: name the PEP 723 script that {python} runs")
    if config.uses("build") and not config.build:
        raise BadKey("build is missing: give the commands that fill {build}")


def _origin(url: str) -> str | None:
    """Scheme, host and port of a URL; None where it is none."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}" if usable else None


def _versions_at(origin: str) -> dict[str, str]:
    names = ("h1", "h2", "h3") if origin.startswith("https:") else ("h1", "h2c")
    return dict.fromkeys(names, origin)

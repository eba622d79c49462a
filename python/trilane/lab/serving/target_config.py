"""What a `servers/NAME/server.toml` says: how a server starts, what it speaks, when it is ready."""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trilane.lab.design import toml_lines
from trilane.lab.design.bad_experiment import BadExperiment, dotted
from trilane.lab.design.toml_table import Table
from trilane.lab.design.vocabulary import VERSIONS
from trilane.lab.design.words import meant
from trilane.lab.serving import calls, grpc_health
from trilane.lab.serving.calls import Call

FILE = "server.toml"
PLACEHOLDERS = (
    *("port", "port2", "threads", "cpus", "cert", "key", "cacert", "books", "www"),
    *("python", "folder", "build", "work", "state"),
)
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9]*)\}")


class BadServer(ValueError):
    """A server.toml that makes no sense; the message names file, line, key and the way out."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A parsed server.toml. Texts may hold placeholders such as `{port}`."""

    name: str
    folder: Path
    title: str
    versions: Mapping[str, str]
    """Origin by version, such as `{"h1": "https://127.0.0.1:{port}"}`."""
    command: tuple[str, ...] = ()
    """Argument vector; empty for a server that is not ours to start."""
    script: str | None = None
    """The PEP 723 script in the folder whose environment `{python}` belongs to."""
    build: tuple[tuple[str, ...], ...] = ()
    """Commands, run in the folder of the sources, that make what the command needs in `{build}`."""
    sources: Path = Path()
    """What `build` builds: the folder itself, or one that servers share."""
    requires: tuple[str, ...] = ()
    """Programs that must be on this machine."""
    install: str | None = None
    """What to type to get them."""
    ready_path: str | None = None
    """It is ready when this path answers 200 …"""
    ready_grpc: str | None = None
    """… or when gRPC's health check says that this service is being served."""
    ready_timeout_s: float = 20.0
    paths: tuple[str, ...] = ()
    """What it serves; `{n}`, `{time}` and `{id}` stand for any value."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Files of the folder that are copied to `{work}` with their placeholders filled in."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Settings that matter to a measurement, for the ledger."""
    software: tuple[str, ...] = ()
    """Command whose first line of output is the name and version of the software."""
    cacert: str | None = None
    """PEM file of the authority of a server that is not ours."""
    stop: str = "SIGTERM"
    stop_timeout_s: float = 5.0
    calls: Mapping[str, Call] = field(default_factory=dict)
    """How the one call of a workload of kind `call` is asked here, by format."""

    @property
    def ours(self) -> bool:
        """Whether the lab starts it."""
        return bool(self.command)

    def uses(self, *names: str) -> bool:
        """Whether any of these placeholders stands in what is needed to start it."""
        texts = [*self.command, *self.environment.values(), *self.versions.values()]
        texts += [(self.folder / file).read_text(encoding="utf-8") for file in self.files]
        return any("{" + name + "}" in text for name in names for text in texts)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with the placeholders of `values` filled in; other braces stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def at_url(url: str) -> ServerConfig:
    """A server that is not ours, known by its URL only; raises BadServer."""
    origin = _origin(url)
    if origin is None:
        raise BadServer(f"{url!r} is no URL of a server; it looks like https://example.org")
    return ServerConfig(name=url, folder=Path(), title=url, versions=_versions_at(origin))


def load(folder: Path) -> ServerConfig:
    """Read `folder/server.toml`; raises BadServer."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise BadServer(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadServer(f"{path}: is not TOML: {error}") from error
    try:
        return _config(folder, document)
    except BadExperiment as error:
        line = toml_lines.lines(text).get(error.key, 1)
        where = ": ".join(part for part in (f"{path}:{line}", dotted(error.key)) if part)
        raise BadServer(f"{where}: {error.problem}") from error


def _config(folder: Path, document: Mapping[str, Any]) -> ServerConfig:
    table = Table(document, ())
    title = table.text("title", folder.name)
    url = table.text("url", None)
    command = table.texts("command", ())
    if (url is None) == (not command):
        raise table.bad(None, "give either command (the lab starts it) or url (it runs already)")
    ready_path, ready_grpc, ready_timeout_s = _ready(table, bool(command))
    versions = _versions(table, document) if url is None else _versions_of(table, url)
    if ready_grpc is not None and "h1" in versions:
        raise table.bad("ready", "gRPC needs HTTP/2 or HTTP/3: give a path, or leave out h1")
    config = ServerConfig(
        name=folder.name,
        folder=folder,
        title=title,
        versions=versions,
        command=command,
        script=_script(folder, table),
        build=tuple(tuple(step) for step in table.lists("build")),
        sources=_sources(folder, table),
        requires=table.texts("requires", ()),
        install=table.text("install", None),
        ready_path=ready_path,
        ready_grpc=ready_grpc,
        ready_timeout_s=ready_timeout_s,
        paths=table.texts("paths", ()),
        environment=_texts_of(table, "environment", document),
        files=_files(folder, table),
        facts=_facts(table, document),
        software=table.texts("software", ()),
        cacert=table.text("cacert", None),
        stop=_signal(table),
        stop_timeout_s=table.time("stop_timeout", 5.0),
        calls=calls.read(table.table("calls")),
    )
    table.close()
    _check_placeholders(config, table)
    return config


def _versions(table: Table, document: Mapping[str, Any]) -> dict[str, str]:
    versions = _texts_of(table, "versions", document)
    if not versions:
        raise table.bad("versions", 'say where, such as h1 = "https://127.0.0.1:{port}"')
    for version, origin in versions.items():
        _known(table, version)
        schemes = {"h1": ("https", "http"), "h2c": ("http",)}.get(version, ("https",))
        if not origin.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise table.bad("versions", f"{version} needs {schemes[0]}://, not {origin!r}")
    return versions


def _versions_of(table: Table, url: str) -> dict[str, str]:
    origin = _origin(url)
    if origin is None:
        raise table.bad("url", f"{url!r} is no URL; it looks like https://example.org")
    possible = _versions_at(origin)
    names = table.texts("versions", tuple(possible))
    for name in names:
        _known(table, name)
        if name not in possible:
            raise table.bad("versions", f"{name} cannot be had at {url}")
    return dict.fromkeys(names, origin)


def _known(table: Table, version: str) -> None:
    if version not in VERSIONS:
        raise table.bad("versions", f"{version!r} is no version{meant(version, VERSIONS)}")


def _ready(table: Table, must: bool) -> tuple[str | None, str | None, float]:
    ready = table.table("ready")
    if ready is None:
        if must:
            raise table.bad(None, 'ready is missing: add ready = { path = "/hello" }')
        return None, None, 20.0
    service = ready.text("grpc", None)
    path = ready.text("path", None) if service is not None else ready.text("path")
    if service is not None and len(service.encode()) > grpc_health.NAME_LIMIT:
        raise ready.bad("grpc", f"has more than {grpc_health.NAME_LIMIT} bytes")
    if service is not None and path is not None:
        raise ready.bad("path", "either a path or a grpc service says that it is ready")
    if path is not None and not path.startswith("/"):
        raise ready.bad("path", f"starts with a slash, unlike {path!r}")
    timeout_s = ready.time("timeout", 20.0)
    ready.close()
    return path, service, timeout_s


def _sources(folder: Path, table: Table) -> Path:
    name = table.text("sources", None)
    if name is None:
        return folder
    sources = (folder / name).resolve()
    if not sources.is_dir():
        raise table.bad("sources", f"{name} is no folder beside the files of {folder}")
    return sources


def _script(folder: Path, table: Table) -> str | None:
    script = table.text("script", None)
    if script is not None and not (folder / script).is_file():
        raise table.bad("script", f"{script} is not in {folder}")
    return script


def _files(folder: Path, table: Table) -> tuple[str, ...]:
    files = table.texts("files", ())
    for file in files:
        if not (folder / file).is_file():
            raise table.bad("files", f"{file} is not in {folder}")
    return files


def _facts(table: Table, document: Mapping[str, Any]) -> dict[str, Any]:
    return {} if table.table("facts") is None else dict(document["facts"])


def _texts_of(table: Table, name: str, document: Mapping[str, Any]) -> dict[str, str]:
    inner = table.table(name)
    return {} if inner is None else {key: inner.text(key) for key in document[name]}


def _signal(table: Table) -> str:
    name = table.text("stop", "SIGTERM")
    if name not in signal.Signals.__members__:
        raise table.bad("stop", f"{name!r} is no signal; it looks like SIGTERM")
    return name


def _check_placeholders(config: ServerConfig, table: Table) -> None:
    for key, texts in (
        ("command", config.command),
        ("versions", tuple(config.versions.values())),
        ("environment", tuple(config.environment.values())),
    ):
        for name in (name for text in texts for name in _PLACEHOLDER.findall(text)):
            if name not in PLACEHOLDERS:
                raise table.bad(key, f"{{{name}}} stands for nothing{meant(name, PLACEHOLDERS)}")
    if config.uses("python") and config.script is None:
        raise table.bad(None, "script is missing: name the PEP 723 script that {python} runs")
    if config.uses("build") and not config.build:
        raise table.bad(None, "build is missing: give the commands that fill {build}")


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

"""What a `servers/NAME/server.toml` says: how a server starts, what it speaks, when it is ready."""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never
from urllib.parse import urlsplit

VERSIONS = ("h1", "h2", "h2c", "h3")
EMBEDDED = "embedded"
FILE = "server.toml"
PLACEHOLDERS = frozenset(
    {
        *("python", "folder", "build", "work", "state"),
        *("port", "port2", "cpus", "threads"),
        *("cert", "key", "cacert", "books", "www"),
    }
)
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9]*)\}")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0}
_KEYS = frozenset(
    {
        *("title", "command", "install", "script", "build", "requires", "versions", "ready", "paths"),
        *("environment", "files", "facts", "software", "url", "cacert", "stop", "stop_timeout"),
    }
)


class BadServer(ValueError):
    """A server.toml that makes no sense; the message names the file, the key and the way out."""


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
    """Commands, run in the folder, that make what the command needs in `{build}`."""
    requires: tuple[str, ...] = ()
    """Programs that must be on this machine."""
    install: str | None = None
    """What to type to get them."""
    ready_path: str | None = None
    ready_timeout_s: float = 20.0
    paths: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Files of the folder that are copied to `{work}` with their placeholders filled in."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Settings that matter to a measurement, for the ledger."""
    software: tuple[str, ...] = ()
    """Command that prints name and version of the software."""
    cacert: str | None = None
    """PEM file of the authority of a server that is not ours."""
    stop: str = "SIGTERM"
    stop_timeout_s: float = 5.0

    @property
    def ours(self) -> bool:
        """Whether the lab starts it."""
        return bool(self.command)

    def uses(self, *names: str) -> bool:
        """Whether any of the placeholders stands in the command or what belongs to it."""
        texts = [*self.command, *self.environment.values(), *self.versions.values()]
        texts += [str(fact) for fact in self.facts.values()]
        texts += [word for step in self.build for word in step]
        texts += [(self.folder / file).read_text(encoding="utf-8") for file in self.files]
        return any("{" + name + "}" in text for name in names for text in texts)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with the placeholders of `values` filled in; other braces stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def at_url(url: str) -> ServerConfig:
    """A server that is not ours, known by its URL only."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadServer(f"{url!r} is no server: type the name of a folder in servers/, or a URL")
    return ServerConfig(
        name=url,
        folder=Path(),
        title=url,
        versions=_versions_of_url(_origin(url)),
    )


def load(folder: Path) -> ServerConfig:
    """Read `folder/server.toml`; raises BadServer."""
    path = folder / FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadServer(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadServer(f"{path}: not TOML: {error}") from error
    return _Reader(path, table).config()


class _Reader:
    """Takes the keys of one file, or says which one is wrong."""

    def __init__(self, path: Path, table: Mapping[str, Any]) -> None:
        self._path = path
        self._table = table

    def config(self) -> ServerConfig:
        unknown = sorted(set(self._table) - _KEYS)
        if unknown:
            self._bad(unknown[0], f"is no key of a server; there are {', '.join(sorted(_KEYS))}")
        url = self._text("url")
        if (url is None) == ("command" not in self._table):
            self._bad("command", "or url must be given, and not both")
        ready = self._ready()
        config = ServerConfig(
            name=self._path.parent.name,
            folder=self._path.parent,
            title=self._text("title") or self._path.parent.name,
            versions=self._versions() if url is None else self._versions_at(url),
            command=self._texts("command"),
            script=self._text("script"),
            build=self._commands("build"),
            requires=self._texts("requires"),
            install=self._text("install"),
            ready_path=ready[0],
            ready_timeout_s=ready[1],
            paths=self._texts("paths"),
            environment=self._environment(),
            files=self._files(),
            facts=self._facts(),
            software=self._texts("software"),
            cacert=self._text("cacert"),
            stop=self._signal(),
            stop_timeout_s=self._time("stop_timeout", self._table.get("stop_timeout", "5s")),
        )
        self._check_placeholders(config)
        return config

    def _versions(self) -> dict[str, str]:
        versions = self._string_table("versions")
        if not versions:
            self._bad("versions", 'must say where, such as { h1 = "https://127.0.0.1:{port}" }')
        for version, origin in versions.items():
            self._known(version)
            scheme = "http" if version == "h2c" else "https"
            if not origin.startswith((f"{scheme}://", "http://" if version == "h1" else scheme)):
                self._bad("versions", f"{version} needs an origin with {scheme}://, not {origin!r}")
        return versions

    def _versions_at(self, url: str) -> dict[str, str]:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            self._bad("url", f"{url!r} is no URL; it looks like https://example.org")
        all_of_them = _versions_of_url(_origin(url))
        names = self._texts("versions") or tuple(all_of_them)
        for name in names:
            self._known(name)
            if name not in all_of_them:
                self._bad("versions", f"{name} cannot be had from a {parts.scheme}:// URL")
        return {name: all_of_them[name] for name in names}

    def _known(self, version: str) -> None:
        if version not in VERSIONS:
            self._bad("versions", f"{version!r} is no version; there are {', '.join(VERSIONS)}")

    def _ready(self) -> tuple[str | None, float]:
        ready = self._table.get("ready", {})
        if not isinstance(ready, dict) or set(ready) - {"path", "timeout"}:
            self._bad("ready", 'looks like { path = "/hello", timeout = "20s" }')
        path = ready.get("path")
        if path is None and "command" in self._table:
            self._bad("ready", "must name a path that answers 200 once the server is ready")
        if path is not None and not (isinstance(path, str) and path.startswith("/")):
            self._bad("ready", f"path must start with /, not be {path!r}")
        return path, self._time("ready.timeout", ready.get("timeout", "20s"))

    def _environment(self) -> dict[str, str]:
        return self._string_table("environment")

    def _files(self) -> tuple[str, ...]:
        files = self._texts("files")
        for file in files:
            if not (self._path.parent / file).is_file():
                self._bad("files", f"{file} is not in {self._path.parent}")
        return files

    def _facts(self) -> dict[str, Any]:
        facts = self._table.get("facts", {})
        if not isinstance(facts, dict):
            self._bad("facts", "must be a table")
        return dict(facts)

    def _signal(self) -> str:
        name = self._text("stop") or "SIGTERM"
        if name not in signal.Signals.__members__:
            self._bad("stop", f"{name!r} is no signal; it looks like SIGTERM")
        return name

    def _time(self, key: str, value: object) -> float:
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            self._bad(key, f'must be a time such as "20s", not {value!r}')
        return float(found[1]) * _SECONDS[found[2]]

    def _check_placeholders(self, config: ServerConfig) -> None:
        for key, texts in (
            ("command", config.command),
            ("versions", tuple(config.versions.values())),
            ("environment", tuple(config.environment.values())),
        ):
            for name in (name for text in texts for name in _PLACEHOLDER.findall(text)):
                if name not in PLACEHOLDERS:
                    there = " ".join(f"{{{known}}}" for known in sorted(PLACEHOLDERS))
                    self._bad(key, f"{{{name}}} stands for nothing; there are {there}")
        if config.uses("python") and config.script is None:
            self._bad("script", "must name the PEP 723 script whose environment {python} is")
        if config.script and not (config.folder / config.script).is_file():
            self._bad("script", f"{config.script} is not in {config.folder}")

    def _text(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is not None and not isinstance(value, str):
            self._bad(key, f"must be a text, not {value!r}")
        return value

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        if not _is_texts(value):
            self._bad(key, f"must be a list of texts, not {value!r}")
        return tuple(value)

    def _commands(self, key: str) -> tuple[tuple[str, ...], ...]:
        value = self._table.get(key, [])
        if not (isinstance(value, list) and all(_is_texts(step) and step for step in value)):
            self._bad(key, 'must be a list of commands, such as [["go", "build", "."]]')
        return tuple(tuple(step) for step in value)

    def _string_table(self, key: str) -> dict[str, str]:
        value = self._table.get(key, {})
        if not (isinstance(value, dict) and _is_texts(list(value.values()))):
            self._bad(key, "must be a table of texts")
        return dict(value)

    def _bad(self, key: str, message: str) -> Never:
        raise BadServer(f"{self._path}: {key}: {message}")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _versions_of_url(origin: str) -> dict[str, str]:
    names = ("h1", "h2", "h3") if origin.startswith("https:") else ("h1", "h2c")
    return dict.fromkeys(names, origin)

"""Client programs under test: found by folder, described by themselves, made ready to run."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trilane.lab.clients import environments
from trilane.lab.clients.contender_build import BuildFailed, built
from trilane.lab.design.vocabulary import MULTIPLEXED, STRATEGIES, VERSIONS

SCRIPT = "contender.py"
DESCRIPTION = "contender.toml"


class BadContender(ValueError):
    """A contender's description is wrong; the message names the file and the key."""


class ContenderFailed(RuntimeError):
    """A contender cannot be made ready here; the message says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One client program, as its description tells."""

    name: str
    title: str
    library: str | None
    """The distribution whose version it reports, if it is one."""
    folder: Path
    versions: tuple[str, ...]
    strategies: Mapping[str, tuple[str, ...]]
    """By version."""
    note: str = ""
    """What a reader must know about how the library is used."""
    requires: tuple[str, ...] = ()
    """Programs that must be installed."""
    steps: tuple[tuple[str, ...], ...] = ()
    """Commands that build it, with `{folder}` and `{build}`."""
    words: tuple[str, ...] = field(default=())
    """The command, with `{folder}` and `{build}`; none for a Python script."""

    @property
    def script(self) -> Path | None:
        """The Python script, if it is one."""
        return None if self.words else self.folder / SCRIPT

    def lacks(self, version: str, strategy: str) -> str | None:
        """Why it does not do this; none if it does."""
        if version not in self.versions:
            return f"{self.name} does not speak {version}, only {', '.join(self.versions)}"
        if strategy not in self.strategies[version]:
            known = ", ".join(self.strategies[version])
            return f"{self.name} over {version} has no strategy {strategy}, only {known}"
        return None

    def missing(self) -> str | None:
        """What this machine lacks to run it, as far as can be told without making it ready."""
        for program in self.requires:
            if shutil.which(program) is None:
                return f"{program} is not installed"
        if self.script and not environments.is_made(self.script):
            try:
                environments.program()
            except environments.EnvironmentFailed as error:
                return str(error)
        return None

    def command(self) -> list[str]:
        """What to start; its environment or its program is made first if it is not there.

        Raises `ContenderFailed`. The first call may take minutes, later ones do not.
        """
        if reason := self.missing():
            raise ContenderFailed(f"{self.name} cannot run: {reason}")
        if self.script:
            try:
                python = environments.interpreter(self.script)
            except environments.EnvironmentFailed as error:
                raise ContenderFailed(str(error)) from None
            return [str(python), str(self.script)]
        places = {"folder": str(self.folder)}
        if self.steps:
            try:
                places["build"] = str(built(self.name, self.folder, self.steps))
            except BuildFailed as error:
                raise ContenderFailed(str(error)) from None
        return [_filled(word, places) for word in self.words]


def discover(folders: Iterable[Path]) -> dict[str, Contender]:
    """The contenders in the folders by name; of two with one name, that of the first folder."""
    found: dict[str, Contender] = {}
    for folder in folders:
        for place in sorted(each for each in folder.iterdir() if each.is_dir()):
            contender = read(place)
            if contender is not None:
                found.setdefault(contender.name, contender)
    return dict(sorted(found.items()))


def read(folder: Path) -> Contender | None:
    """The contender of one folder; none if the folder does not describe one."""
    script, description = folder / SCRIPT, folder / DESCRIPTION
    if description.is_file():
        try:
            given = tomllib.loads(description.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadContender(f"{description}: not TOML: {error}") from None
        return _contender(description, given)
    if not script.is_file():
        return None
    try:
        tool = environments.metadata(script).get("tool", {}).get("trilane")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadContender(f"{script}: the script's metadata is not TOML: {error}") from None
    if tool is None:
        raise BadContender(f"{script}: the script's metadata has no table [tool.trilane]")
    return _contender(script, tool)


_KEYS = {
    "build",
    "command",
    "library",
    "name",
    "note",
    "requires",
    "runtime",
    "strategies",
    "title",
    "versions",
}


def _contender(path: Path, given: Mapping[str, Any]) -> Contender:
    if unknown := sorted(set(given) - _KEYS):
        raise BadContender(f"{path}: unknown key {unknown[0]!r}; known are {_listed(_KEYS)}")
    words = _strings(path, given, "command")
    if bool(words) == (path.name == SCRIPT):
        raise BadContender(f"{path}: command belongs into {DESCRIPTION}, and only there")
    runtime = _text(path, given, "runtime", "")
    if runtime not in {"", environments.SELF} or (runtime and words):
        raise BadContender(
            f'{path}: runtime = "{environments.SELF}" is all there is, and only for a {SCRIPT}'
        )
    versions = _strings(path, given, "versions")
    if not versions or not set(versions) <= set(VERSIONS):
        raise BadContender(f"{path}: versions must be some of {_listed(VERSIONS)}")
    name = _text(path, given, "name", path.parent.name)
    return Contender(
        name=name,
        title=_text(path, given, "title", name),
        library=_text(path, given, "library", "") or None,
        folder=path.parent.resolve(),
        versions=versions,
        strategies=_strategies(path, given.get("strategies"), versions),
        note=_text(path, given, "note", ""),
        requires=_strings(path, given, "requires"),
        steps=_steps(path, given.get("build", [])),
        words=words,
    )


def _strategies(path: Path, given: Any, versions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By version. One list is for all versions; HTTP/1.1 takes of it what needs no streams."""
    by_version = given if isinstance(given, dict) else dict.fromkeys(versions, given)
    if set(by_version) != set(versions):
        raise BadContender(f"{path}: strategies must name each of the versions, or be one list")
    for names in by_version.values():
        if not isinstance(names, list) or not names or not set(names) <= set(STRATEGIES):
            raise BadContender(f"{path}: strategies must be some of {_listed(STRATEGIES)}")
    return {
        version: tuple(
            name for name in by_version[version] if version != "h1" or name not in MULTIPLEXED
        )
        for version in versions
    }


def _steps(path: Path, given: Any) -> tuple[tuple[str, ...], ...]:
    valid = isinstance(given, list) and all(
        isinstance(step, list) and step and all(isinstance(word, str) for word in step)
        for step in given
    )
    if not valid:
        raise BadContender(f"{path}: build must be a list of commands, each a list of words")
    return tuple(tuple(step) for step in given)


def _strings(path: Path, given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadContender(f"{path}: {key} must be a list of strings")
    return tuple(value)


def _text(path: Path, given: Mapping[str, Any], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str):
        raise BadContender(f"{path}: {key} must be a string")
    return value


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _filled(word: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        word = word.replace("{" + name + "}", value)
    return word

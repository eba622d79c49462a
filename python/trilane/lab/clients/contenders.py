"""Client programs under test: found by folder, described by themselves, made ready to run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from trilane.lab.experiment.bad_experiment import BadKey, Key, dotted
from trilane.lab.experiment.toml_document import Document, UnreadableToml, convert
from trilane.lab.experiment.vocabulary import MULTIPLEXED, STRATEGIES, VERSIONS
from trilane.lab.experiment.words import is_not
from trilane.lab.programs import environments
from trilane.lab.programs.builds import BuildFailed, built
from trilane.lab.targets.target_config import fill

SCRIPT = "contender.py"
DESCRIPTION = "contender.toml"
_VARIANTS = "variants"
_SELF = "self"
"""As `runtime`: our own interpreter, with the packages that it has."""


class BadContender(ValueError):
    """A contender's description is wrong; the message names file, line, key and the way out."""


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
    rates: bool = False
    """Whether it sends so many requests a second where that is asked for."""
    note: str = ""
    """What a reader must know about how the library is used."""
    requires: tuple[str, ...] = ()
    """Programs that must be installed."""
    steps: tuple[tuple[str, ...], ...] = ()
    """Commands that build it, with `{folder}` and `{build}`; a script is then told `{build}`."""
    words: tuple[str, ...] = field(default=())
    """The command, with `{folder}` and `{build}`; none for a Python script."""
    ours: bool = False
    """Whether its script runs in our own environment, not in one that its metadata describes.

    It is for clients that come with Trilane: what is measured then is the checkout or the
    installation that measures.
    """
    variant: bool = False
    """Whether it is a variant of the contender of its folder: the script is then told its name."""

    @property
    def script(self) -> Path | None:
        """The Python script, if it is one."""
        return None if self.words else self.folder / SCRIPT

    def lacks(self, version: str, strategy: str, rate: float | None = None) -> str | None:
        """Why it does not do this; none if it does."""
        if rate is not None and not self.rates:
            return f"{self.name} keeps no rate"
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
        if self.script and not self.ours and not environments.is_made(self.script):
            try:
                environments.program()
            except environments.EnvironmentFailed as error:
                return str(error)
        return None

    def command(self) -> list[str]:
        """What to start; its environment or its program is made first if it is not there.

        The first call may take minutes, later ones do not.

        Raises:
            ContenderFailed: this machine lacks a program, or its environment or its program could
                not be made.
        """
        if reason := self.missing():
            raise ContenderFailed(f"{self.name} cannot run: {reason}")
        words, places = self.words, {"folder": str(self.folder)}
        try:
            if self.script:
                python = sys.executable if self.ours else environments.interpreter(self.script)
                words = (str(python), str(self.script))
                if self.steps:
                    words += ("{build}",)
                if self.variant:
                    words += (self.name,)
            if self.steps:
                places["build"] = str(built(self.folder.name, self.folder, self.steps))
        except (environments.EnvironmentFailed, BuildFailed) as error:
            raise ContenderFailed(str(error)) from None
        return [fill(word, places) for word in words]


def discover(folders: Iterable[Path]) -> dict[str, Contender]:
    """The contenders in the folders by name; of two with one name, that of the first folder."""
    found: dict[str, Contender] = {}
    for folder in folders:
        for place in sorted(each for each in folder.iterdir() if each.is_dir()):
            for contender in read(place):
                found.setdefault(contender.name, contender)
    return dict(sorted(found.items()))


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A description, key by key, as `Contender` says what they mean."""

    name: str | None = None
    title: str | None = None
    library: str = ""
    note: str = ""
    runtime: str = ""
    command: tuple[str, ...] = ()
    build: tuple[tuple[str, ...], ...] = ()
    requires: tuple[str, ...] = ()
    rates: bool = False
    versions: tuple[str, ...]
    strategies: dict[str, tuple[str, ...]] | tuple[str, ...]


def read(folder: Path) -> list[Contender]:
    """The contender of one folder and its variants; none if the folder does not describe one."""
    script, description = folder / SCRIPT, folder / DESCRIPTION
    if description.is_file():
        return _read(description, description.read_bytes(), ())
    if not script.is_file():
        return []
    try:
        content = environments.embedded(script).encode()
    except UnicodeDecodeError as error:
        raise BadContender(f"{script}: is not UTF-8: {error}") from None
    return _read(script, content, ("tool", "trilane"))


def _read(path: Path, content: bytes, key: Key) -> list[Contender]:
    """The contenders of a file in which the description stands at `key`."""
    try:
        document = Document.parse(content)
    except UnreadableToml as error:
        raise BadContender(f"{path}:{error.line}: {error}") from None
    values = document.at(key)
    if values is None:
        raise BadContender(f"{path}: the script's metadata has no table [{dotted(key)}]")
    try:
        return _contenders(path, values, key)
    except BadKey as error:
        raise BadContender(f"{path}:{document.line(error.key)}: {error}") from None


def _contenders(path: Path, values: Any, key: Key) -> list[Contender]:
    """The one of the table, and its variants: what they leave out is as there."""
    common = dict(convert(values, dict[str, Any], key))
    variants = convert(common.pop(_VARIANTS, {}), dict[str, dict[str, Any]], (*key, _VARIANTS))
    found = [_contender(path, convert(common, _Table, key), key)]
    for name, given in variants.items():
        at = (*key, _VARIANTS, name)
        table = convert(common | {"name": name} | given, _Table, at)
        found.append(replace(_contender(path, table, at), variant=True))
    return found


def _contender(path: Path, table: _Table, key: Key) -> Contender:
    if path.name == SCRIPT and table.command:
        raise BadKey(f"belongs into {DESCRIPTION}, and only there", (*key, "command"))
    if path.name != SCRIPT and not table.command:
        raise BadKey("command is missing: add command = […]", key)
    if table.runtime not in {"", _SELF} or (table.runtime and table.command):
        problem = f'runtime = "{_SELF}" is all there is, and only for a {SCRIPT}'
        raise BadKey(problem, (*key, "runtime"))
    _check_words("version", table.versions, VERSIONS, (*key, "versions"))
    for index, step in enumerate(table.build):
        if not step:
            raise BadKey("is empty: a command is a list of words", (*key, "build", index))
    name = table.name or path.parent.name
    return Contender(
        name=name,
        title=table.title or name,
        library=table.library or None,
        folder=path.parent.resolve(),
        versions=table.versions,
        strategies=_strategies(table, (*key, "strategies")),
        rates=table.rates,
        note=table.note,
        requires=table.requires,
        steps=table.build,
        words=table.command,
        ours=table.runtime == _SELF,
    )


def _strategies(table: _Table, key: Key) -> dict[str, tuple[str, ...]]:
    """By version. One list is for all versions; HTTP/1.1 takes of it what needs no streams."""
    given = table.strategies
    by_version = given if isinstance(given, dict) else dict.fromkeys(table.versions, given)
    if set(by_version) != set(table.versions):
        raise BadKey("must name each of the versions, or be one list", key)
    for version, names in by_version.items():
        where = (*key, version) if by_version is given else key
        _check_words("strategy", names, STRATEGIES, where)
    return {
        version: tuple(
            name for name in by_version[version] if version != "h1" or name not in MULTIPLEXED
        )
        for version in table.versions
    }


def _check_words(what: str, found: Sequence[str], known: Collection[str], key: Key) -> None:
    if not found:
        raise BadKey(f"is empty: choose from {', '.join(known)}", key)
    for index, word in enumerate(found):
        if word not in known:
            raise BadKey(is_not(what, word, known), (*key, index))

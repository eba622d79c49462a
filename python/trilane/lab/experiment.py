"""An experiment: a question, its arms, its workload, and what others have published on it.

It is read from a TOML file (`load`, `find`, `Experiment.load`) or built in code. Everything is
frozen and checked when it is made: `BadExperiment` names the key that is wrong.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trilane.lab.bad_experiment import BadExperiment
from trilane.lab.form import Expect, Form, Published, Quick, Stats, Sweep
from trilane.lab.measures import Json
from trilane.lab.workload import ArmSpec, Workload

__all__ = [
    "SCHEMA",
    "ArmSpec",
    "BadExperiment",
    "Expect",
    "Experiment",
    "Form",
    "Published",
    "Quick",
    "Source",
    "Stats",
    "Sweep",
    "Workload",
    "find",
    "load",
]

SCHEMA = "trilane.experiment/1"


@dataclass(frozen=True, slots=True)
class Source:
    """The post that the experiment repeats."""

    title: str
    author: str = ""
    date: str = ""
    claim: str = ""
    """What it claimed, in one sentence."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question and its forms: `published`, as in the post, `fair`, without its confounders."""

    name: str
    title: str
    question: str
    forms: dict[str, Form]
    hypothesis: str = ""
    confounders: tuple[str, ...] = ()
    """What else differed between the arms in the published form."""
    source: Source | None = None
    path: Path | None = field(default=None, compare=False)
    """The file it was read from."""

    def to_dict(self) -> Json:
        """As JSON: everything filled in, for manifests and replay."""
        result = _plain(asdict(self))
        result["path"] = None if self.path is None else str(self.path)
        return {"schema": SCHEMA, **result}

    @classmethod
    def from_dict(cls, data: Json) -> Experiment:
        """Made again from `to_dict`."""
        try:
            return cls(
                name=data["name"],
                title=data["title"],
                question=data["question"],
                forms={name: _form(form) for name, form in data["forms"].items()},
                hypothesis=data["hypothesis"],
                confounders=tuple(data["confounders"]),
                source=None if data["source"] is None else Source(**data["source"]),
                path=None if data["path"] is None else Path(data["path"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BadExperiment(
                f"this is no experiment as trilane {SCHEMA} keeps it: {error}", ()
            ) from error

    @classmethod
    def load(cls, name: str | Path) -> Experiment:
        """Read a file, or find the experiment of that name among yours and those of Trilane."""
        if str(name).endswith(".toml"):
            return load(Path(name))
        return find(str(name))


def load(path: Path) -> Experiment:
    """Read an experiment file; BadExperiment names file, line and key, OSError when unreadable."""
    from trilane.lab import experiment_file  # noqa: PLC0415 - it imports this module

    return experiment_file.read(path)


def find(name: str, folders: Sequence[Path] | None = None) -> Experiment:
    """The experiment `name` from the first of the folders that has it.

    By default these are `experiments` in the current folder, then those that ship with Trilane.
    """
    from trilane.lab import experiment_file  # noqa: PLC0415 - it imports this module

    return experiment_file.find(name, folders)


def _plain(value: Any) -> Any:
    """Dataclasses as `asdict` leaves them, with what JSON has no word for replaced."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _made(kind: type[Any], data: Json, **parts: Any) -> Any:
    return kind(**{key: _frozen(value) for key, value in data.items()} | parts)


def _form(data: Json) -> Form:
    workload, quick, sweep = data["workload"], data["quick"], data["sweep"]
    body = workload["body"]
    form: Form = _made(
        Form,
        data,
        workload=_made(Workload, workload, body=None if body is None else base64.b64decode(body)),
        arms=tuple(_made(ArmSpec, arm) for arm in data["arms"]),
        stats=_made(Stats, data["stats"]),
        sweep=None if sweep is None else _made(Sweep, sweep),
        published=tuple(_made(Published, row) for row in data["published"]),
        expect=tuple(_made(Expect, row) for row in data["expect"]),
        quick=None if quick is None else _made(Quick, quick),
    )
    return form

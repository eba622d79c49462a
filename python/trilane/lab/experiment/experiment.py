"""An experiment: a question, its arms, its workload, and what others have published on it.

It is read from a TOML file (`load`, `find`, `Experiment.load`) or built in code. Everything is
frozen and checked when it is made: `BadExperiment` names the key that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trilane.lab.experiment import plain
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.check import check
from trilane.lab.experiment.form import Expect, Form, Published, Quick, Stats, Sweep
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.documents import Json

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
    race: bool = False
    """Made of the flags of `trilane race`: it has one form, whose arms a server need not serve."""

    def __post_init__(self) -> None:
        check(self)

    def _repr_html_(self) -> str:
        from trilane.lab.experiment import describe  # noqa: PLC0415 - it imports this module

        return describe.html(self)

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        """What Jupyter shows: the question, and each form's workload and arms as a table."""
        from trilane.lab.experiment import describe  # noqa: PLC0415 - it imports this module

        return {"text/html": describe.html(self), "text/plain": describe.plain(self)}

    def to_dict(self) -> Json:
        """As JSON: everything filled in, for manifests and replay."""
        return {"schema": SCHEMA, **plain.to_json(self)}

    @classmethod
    def from_dict(cls, data: Json) -> Experiment:
        """Made again from `to_dict`."""
        try:
            return cls(
                name=data["name"],
                title=data["title"],
                question=data["question"],
                forms={name: Form.from_dict(form) for name, form in data["forms"].items()},
                hypothesis=data["hypothesis"],
                confounders=tuple(data["confounders"]),
                source=None if data["source"] is None else Source(**data["source"]),
                path=None if data["path"] is None else Path(data["path"]),
                race=bool(data.get("race")),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BadExperiment(
                f"this is not an experiment as trilane {SCHEMA} keeps it: {error}", ()
            ) from error

    @classmethod
    def load(cls, name: str | Path) -> Experiment:
        """Read a file, or find the experiment of that name among yours and those of Trilane."""
        if str(name).endswith(".toml"):
            return load(Path(name))
        return find(str(name))


def load(path: Path) -> Experiment:
    """Read an experiment file; BadExperiment names file, line and key, OSError when unreadable."""
    from trilane.lab.experiment import experiment_file  # noqa: PLC0415 - it imports this module

    return experiment_file.read(path)


def find(name: str, folders: Sequence[Path] | None = None) -> Experiment:
    """The experiment `name` from the first of the folders that has it.

    By default these are `experiments` in the current folder, then those that ship with Trilane.
    """
    from trilane.lab.experiment import experiment_file  # noqa: PLC0415 - it imports this module

    return experiment_file.find(name, folders)

"""An experiment: a question, its arms, its workload, and what others have published on it.

It is read from a TOML file (`Experiment.load`) or built in code. Everything is frozen and checked
when it is made: `BadExperiment` names the key that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.check import check
from trilane.lab.experiment.form import Form
from trilane.lab.model.documents import Json
from trilane.lab.model.revision import MeasuredRevision

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
class Machines:
    """Which machines of a cluster have the servers and which make the load, by labels.

    A machine has the labels that its worker was started with (`trilane cluster worker --label`).
    """

    clients: tuple[str, ...] = ()
    """Labels that each machine of the load has; none: all that are there."""
    server: str | None = None
    """A label of the one machine that has the servers; None: the one where the command is typed."""
    workers: int | None = None
    """How many machines make the load; None: all that have the labels."""


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
    group: str = ""
    """The heading under which lists have it; empty for none."""
    cluster: Machines | None = None
    """Where it runs on a cluster; None: on whichever machine, or cluster, it is started."""
    path: Path | None = field(default=None, compare=False)
    """The file it was read from."""
    race: bool = False
    """Made of the flags of `trilane race`: it has one form, whose arms a server need not serve."""
    revisions: tuple[MeasuredRevision, ...] = ()
    """What its arms are revisions of (`trilane ab`), for the history of a branch."""

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
        return {"schema": SCHEMA, **msgspec.to_builtins(self, enc_hook=str)}

    @classmethod
    def from_dict(cls, data: Json) -> Experiment:
        """Made again from `to_dict`.

        Raises:
            BadExperiment: it is none, or one that `check` refuses.
        """
        problem = f"this is not an experiment as trilane {SCHEMA} keeps it"
        try:
            # Of its types msgspec knows all but `Path`.
            made = msgspec.convert(data, cls, dec_hook=lambda kind, value: kind(value))
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, BadExperiment):
                raise error.__cause__ from None
            raise BadExperiment(f"{problem}: {error}") from error
        # What a later version adds to an arm would make another run of it.
        for name in _unknown(data, made.to_dict()):
            raise BadExperiment(f"{problem}: it has no {name!r}")
        return made

    @classmethod
    def load(cls, name: str | Path) -> Experiment:
        """Read a file, or find the experiment of that name among yours and those of Trilane.

        BadExperiment names file, line and key, OSError when unreadable.
        """
        from trilane.lab.experiment import experiment_file  # noqa: PLC0415 - it imports this module

        if str(name).endswith(".toml"):
            return experiment_file.read(Path(name))
        return experiment_file.find(str(name))


def _unknown(told: Any, known: Any) -> Iterator[str]:
    """Names of members in JSON that other JSON does not have in the same place."""
    if isinstance(told, dict):
        for name, value in told.items():
            if name in known:
                yield from _unknown(value, known[name])
            else:
                yield name
    elif isinstance(told, list | tuple):
        for value, other in zip(told, known, strict=True):
            yield from _unknown(value, other)

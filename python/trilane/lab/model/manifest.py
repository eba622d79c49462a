"""What was asked of a run folder, `trilane.manifest/2`: what it takes to go on and to repeat it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from trilane.lab.model.arm import ENGINE
from trilane.lab.model.comparison import Look
from trilane.lab.model.record import Amount, Count, Positive, Record, Time
from trilane.lab.model.revision import MeasuredRevision

SCHEMA: Literal["trilane.manifest/2"] = "trilane.manifest/2"
BEFORE: Literal["trilane.manifest/1"] = "trilane.manifest/1"
"""In whose folders the engine was called `trilane`, and the Python client `trilane-client`."""
Kind: TypeAlias = Literal["lab", "race"]
Status: TypeAlias = Literal["running", "interrupted", "complete", "failed"]
RACE = "race"
"""What a race is called where others have the name of their experiment."""
_REPLAY = "trilane lab replay "


class Manifest(Record, frozen=True, omit_defaults=False):
    """One run folder: what was asked, and how far it is."""

    schema: Literal["trilane.manifest/1", "trilane.manifest/2"]
    """Name and version of this format."""
    kind: Kind
    """`race` for one of `trilane race`, else `lab`."""
    status: Status
    """How far it is; in the file `running` also where it was killed."""
    command: str
    """What to type to do it again, order and resampling included."""
    started_at: Time
    """UTC."""
    seed: Count
    """Seed of the order and of the bootstrap."""
    machine: dict[str, Any]
    """Facts about the machine."""
    experiment: dict[str, Any] | None = None
    """The experiment with everything filled in (`Experiment.to_dict`), and its one form; null in
    races of versions that did not keep it.
    """
    form: str | None = None
    """Name of the form."""
    quick: bool = False
    """Whether `--quick` cut the experiment down."""
    fingerprint: str | None = None
    """Equal for plans of which one can go on where the other stopped."""
    blocks: Positive | None = None
    """Blocks planned; with `looks` at most so many."""
    looks: list[Look] | None = None
    """When a run that ends once it is decided looks at its results; null where the number of blocks
    is fixed.
    """
    ended_at: list[Positive | None] | None = None
    """Of each point the number of the look, from 1, that ended it, null where none did; null while
    it runs and without `looks`.
    """
    took_s: Amount | None = None
    """Seconds that commands worked on it; null while one does, and where one was killed."""

    @property
    def clients_now(self) -> dict[str, str]:
        """What clients are called now, by what the folder calls them, where that differs."""
        return {"trilane": ENGINE, "trilane-client": "trilane"} if self.schema == BEFORE else {}

    @property
    def name(self) -> str:
        """What it is a run of: the experiment, or `race`."""
        if self.kind == RACE or self.experiment is None:
            return RACE
        return str(self.experiment.get("name"))

    @property
    def shown_form(self) -> str | None:
        """The form, where there is a choice: a race has but one."""
        return None if self.kind == RACE else self.form

    @property
    def workload(self) -> dict[str, Any]:
        """The workload of the form as the experiment gave it; empty where it is not kept."""
        forms = (self.experiment or {}).get("forms") or {}
        return dict((forms.get(self.form) or {}).get("workload") or {})

    @property
    def revisions(self) -> dict[str, MeasuredRevision]:
        """What the arms are revisions of, by their names; empty where they are none.

        Raises:
            msgspec.ValidationError: the experiment says something else.
        """
        told = (self.experiment or {}).get("revisions") or []
        known = msgspec.convert(told, list[MeasuredRevision])
        return {revision.arm: revision for revision in known}

    @property
    def way_on(self) -> str:
        """What to type for a run that did not end: go on with it, or make it again."""
        if self.experiment is None or self.command.startswith(_REPLAY):
            return f"to make it again: {self.command or 'trilane race'}"
        # Typed again, the command finds what it began, unless it was told to begin anew.
        words = [word for word in self.command.split(" ") if word != "--new"]
        return f"to go on with it: {' '.join(words)}"

"""What a run folder came to, `trilane.summary/1`: all that is asked about many runs at once.

It repeats what the folder's other files say, so that nobody has to read them: see
`lab.storage.summaries`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from trilane.lab.model.arm import ArmName
from trilane.lab.model.comparison import Shown, Summary
from trilane.lab.model.manifest import Kind, Status
from trilane.lab.model.record import Record, SweepValue, Time, Verdict
from trilane.lab.model.revision import MeasuredRevision

SCHEMA: Literal["trilane.summary/1"] = "trilane.summary/1"
BROKEN: Literal["broken"] = "broken"
SummaryStatus: TypeAlias = Status | Literal["broken"]


class ArmSummary(Record, frozen=True):
    """What one arm reached at one point of a sweep."""

    arm: ArmName
    """Name of the arm."""
    title: str
    """Name for people."""
    software: str
    """Client and version, such as `requests 2.32.5` or `trilane 0.1.0 (0123abc)`."""
    workload: str
    """Fingerprint of what was asked: equal where values may be set side by side."""
    validity: Verdict
    """Whether the arm's runs may be believed."""
    reached: dict[str, Summary]
    """What the arm reached, by name of the measure; measures without a value are left out."""
    point: SweepValue | None = None
    """Value of the sweep; absent without one."""
    revision: MeasuredRevision | None = None
    """What the arm is a revision of; absent where it is none."""


class RunSummary(Record, frozen=True):
    """One run folder."""

    schema: Literal["trilane.summary/1"]
    """Name and version of this format."""
    made_of: str
    """Names, times and sizes of the files that it was made of."""
    folder: str
    """Name of the folder."""
    status: SummaryStatus
    """How far the run is; `broken` where its files cannot be read."""
    problem: str | None = None
    """Why it is broken."""
    kind: Kind | None = None
    """What made it."""
    experiment: str | None = None
    """Name of the experiment; `race` for a race."""
    form: str | None = None
    """Form of the experiment."""
    quick: bool = False
    """Whether `--quick` cut the experiment down."""
    started_at: Time | None = None
    """UTC."""
    command: str | None = None
    """What to type to do it again."""
    way_on: str | None = None
    """What to type for a run that did not end."""
    machine: str | None = None
    """Machine id."""
    machine_facts: dict[str, Any] = msgspec.field(default_factory=dict)
    """Facts about the machine."""
    measure: str | None = None
    """Name of the measure that the ranking goes by."""
    validity: Verdict | None = None
    """Whether the result may be believed; absent without a result."""
    verdict: str | None = None
    """One sentence."""
    measures: list[Shown] = msgspec.field(default_factory=list)
    """What was compared, in the order shown."""
    arms: list[ArmSummary] = msgspec.field(default_factory=list)
    """Its arms, point by point."""
